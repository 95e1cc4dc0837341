/**
 * Who writes a table: the running service, or, where none answers, the stream half started in this process for as long as the
 * work takes. It also applies what stands in the log meanwhile, as `sluice stream` would.
 */
import type { Config } from '../runtime/config.ts';
import type { FailpointHook } from '../runtime/failpoints.ts';
import { createLogger } from '../runtime/logger.ts';
import { createMetrics } from '../runtime/metrics.ts';
import { createControl } from './control-actions.ts';
import { startPipeline } from './pipeline.ts';
import { callService, nobodyServes, pollService } from './service-client.ts';

/** Gives one command to the owner and brings its answer. */
export type OwnerCall = <T>(name: string, body: Record<string, unknown>) => Promise<T>;

export type OwnerPlace = 'service' | 'this process';

export interface OwnerRequest {
  readonly reload: () => Config;
  /** Endpoint given by the user: then a service must answer there. */
  readonly url: string | undefined;
  readonly signal: AbortSignal;
  readonly failpoint?: FailpointHook;
}

/** Work of one call takes its time. */
const CALL_MS = 600_000;
/** Commands that change nothing. */
const ASKS: ReadonlySet<string> = new Set(['replay-state', 'quarantine-list', 'quarantine-show']);

export async function withTableOwner<T>(
  request: OwnerRequest,
  work: (call: OwnerCall, place: OwnerPlace) => Promise<T>,
): Promise<T> {
  const { reload, url, signal } = request;
  const config = reload();
  if (url !== undefined || (await answers(config)))
    return work((name, body) => {
      const ask = ASKS.has(name) ? pollService : callService;
      return ask(config, { path: `/control/${name}`, body, url, half: 'stream', timeoutMs: CALL_MS });
    }, 'service');
  const metrics = createMetrics();
  const failpoint = request.failpoint ?? ((): void => undefined);
  const pipeline = await startPipeline({
    config,
    reload,
    parts: { reader: false, stream: true },
    logger: createLogger({ level: 'error', pipeline: config.name }),
    metrics,
    failpoint,
    availableNow: false,
  });
  try {
    // First what stands in the log: the work must know every event of its keys, parked ones too.
    await pipeline.ingest?.drain(signal);
    const actions = await createControl(pipeline, config, metrics, failpoint);
    return await work(async <A>(name: string, body: Record<string, unknown>) => {
      const action = actions[name];
      if (action === undefined) throw new RangeError(`no command ${name}`);
      return (await action(body)) as A;
    }, 'this process');
  } finally {
    await pipeline.stop();
  }
}

async function answers(config: Config): Promise<boolean> {
  try {
    await callService(config, { path: '/status', half: 'stream' });
    return true;
  } catch (error) {
    if (nobodyServes(error)) return false;
    throw error;
  }
}
