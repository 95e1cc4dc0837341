/**
 * Who writes a table's quarantine: the running service, or, where none answers, the stream half started in this process for as
 * long as the work takes. It also applies what stands in the log meanwhile, as `sluice stream` would.
 */
import type { QuarantineDetail } from '../ingest/quarantine-list.ts';
import type { RetryResult } from '../ingest/quarantine-retry.ts';
import type { Config } from '../runtime/config.ts';
import { SluiceError } from '../runtime/errors.ts';
import { createLogger } from '../runtime/logger.ts';
import { createMetrics } from '../runtime/metrics.ts';
import { createControl } from './control-actions.ts';
import { startPipeline } from './pipeline.ts';
import { callService } from './service-client.ts';

export interface QuarantineOwner {
  show(table: string, id: string): Promise<{ readonly row: QuarantineDetail | null }>;
  retry(table: string, ids: readonly string[] | null): Promise<RetryResult>;
  drop(table: string, ids: readonly string[]): Promise<{ readonly dropped: number }>;
}

/** A retry of many rows takes its time. */
const CALL_MS = 600_000;

export async function withQuarantineOwner<T>(
  reload: () => Config,
  url: string | undefined,
  signal: AbortSignal,
  work: (owner: QuarantineOwner) => Promise<T>,
): Promise<T> {
  const config = reload();
  if (url !== undefined || (await answers(config))) {
    return work(
      ownerBy((name, body) =>
        callService(config, { path: `/control/${name}`, body, url, half: 'stream', timeoutMs: CALL_MS }),
      ),
    );
  }
  const metrics = createMetrics();
  const pipeline = await startPipeline({
    config,
    reload,
    parts: { reader: false, stream: true },
    logger: createLogger({ level: 'error', pipeline: config.name }),
    metrics,
    failpoint: () => undefined,
    availableNow: false,
  });
  try {
    // First what stands in the log: a retry must know every parked event of its keys.
    await pipeline.ingest?.drain(signal);
    const actions = await createControl(pipeline, config, metrics);
    return await work(
      ownerBy(async (name, body) => {
        const action = actions[name];
        if (action === undefined) throw new RangeError(`no command ${name}`);
        return action(body);
      }),
    );
  } finally {
    await pipeline.stop();
  }
}

async function answers(config: Config): Promise<boolean> {
  try {
    await callService(config, { path: '/status', half: 'stream' });
    return true;
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'SERVICE_UNREACHABLE' && refused(error)) return false;
    throw error;
  }
}

/** Nothing listens there. A service that is there and does not answer still owns its tables. */
function refused(error: SluiceError): boolean {
  return (error.cause as { code?: unknown } | null)?.code === 'ECONNREFUSED';
}

type Send = (name: string, body: Record<string, unknown>) => Promise<unknown>;

function ownerBy(send: Send): QuarantineOwner {
  return {
    show: async (table, id) => (await send('quarantine-show', { table, id })) as { row: QuarantineDetail | null },
    retry: async (table, ids) => (await send('quarantine-retry', { table, ids })) as RetryResult,
    drop: async (table, ids) => (await send('quarantine-drop', { table, ids })) as { dropped: number },
  };
}
