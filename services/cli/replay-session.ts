/** Log and lake open for a replay, and its work given to whoever owns the tables. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { BuildProgress } from '../replay/replay/build-table.ts';
import type { ReplayParts } from '../replay/replay/parts.ts';
import type { ReplayJobState } from '../replay/replay/replay-jobs.ts';
import type { Config } from '../runtime/config.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import { failpointFromEnvironment, type FailpointHook } from '../runtime/failpoints.ts';
import { openLake } from './assemble/lake.ts';
import { openLog } from './assemble/log.ts';
import { replayParts, requireOwnTopics } from './assemble/replay-parts.ts';
import type { CliContext } from './command.ts';
import type { OwnerCall, OwnerPlace } from './table-owner.ts';

export interface ReplaySession {
  readonly config: Config;
  readonly parts: ReplayParts;
}

/** Closed behind the work. */
export async function withReplay<T>(
  reload: () => Config,
  context: CliContext,
  work: (session: ReplaySession) => Promise<T>,
): Promise<T> {
  const config = reload();
  requireOwnTopics(config);
  const lake = openLake(config);
  try {
    const log = await openLog(config, reload);
    try {
      return await work({ config, parts: await replayParts(config, { lake, log }, replayFailpoint(context)) });
    } finally {
      await log.close();
    }
  } finally {
    await lake.close();
  }
}

export const replayFailpoint = (context: CliContext): FailpointHook =>
  failpointFromEnvironment(context.env['SLUICE_FAILPOINT'], () => process.kill(process.pid, 'SIGKILL'));

const POLL_MS = 200;

/** Starts a job at the owner and follows it to its end. @throws SluiceError with what the job failed by */
export async function followJob(
  call: OwnerCall,
  place: OwnerPlace,
  order: Record<string, unknown>,
  context: CliContext,
  onState: (state: ReplayJobState) => void,
): Promise<ReplayJobState> {
  const started = await call<ReplayJobState>('replay', order);
  let cancelled = false;
  for (let state: ReplayJobState = started; ;) {
    onState(state);
    if (state.error !== null && state.phase === 'failed') throw failure(state, state.error);
    if (state.phase !== 'running') return state;
    // A job of the service outlives this command; one of this process ends with it.
    if (context.signal.aborted && place === 'service') return state;
    if (context.signal.aborted && !cancelled) {
      cancelled = true;
      await call('cancel-replay', { table: state.table });
    }
    await sleep(POLL_MS);
    const { job } = await call<{ readonly job: ReplayJobState | null }>('replay-state', { id: started.id });
    if (job === null || job.startedAtMs !== started.startedAtMs)
      throw new SluiceError('REPLAY_LOST', `the service that ran the replay of ${started.table} was started again`, {
        exit: ExitCode.findings,
        remedy: 'give the command again: it goes on where it was',
      });
    state = job;
  }
}

function failure(state: ReplayJobState, error: NonNullable<ReplayJobState['error']>): SluiceError {
  const exit = Object.values(ExitCode).find((known) => known === error.exit) ?? ExitCode.findings;
  return new SluiceError(error.code, `${state.table}: ${error.message}`, { exit, remedy: error.remedy });
}

export interface ProgressLine {
  show(progress: number, detail: string): void;
  end(): void;
}

const BAR_CELLS = 30;
const LINE_EVERY_MS = 5_000;

/** A bar that is drawn again in place on a terminal; elsewhere a line now and then. On stderr. */
export function progressLine(context: CliContext, what: string): ProgressLine {
  let toldMs = Date.now();
  let drawn = false;
  return {
    show(progress, detail) {
      const percent = Math.floor(progress * 100);
      if (context.isTty) {
        const full = Math.round(progress * BAR_CELLS);
        const bar = `${'#'.repeat(full)}${'-'.repeat(BAR_CELLS - full)}`;
        context.err(`\r${what}  [${bar}] ${percent}%  ${detail}   `);
        drawn = true;
      } else if (Date.now() - toldMs >= LINE_EVERY_MS) {
        toldMs = Date.now();
        context.err(`${what}  ${percent}%  ${detail}\n`);
      }
    },
    end() {
      if (drawn) context.err('\n');
    },
  };
}

/** How far a build is, with what is left by its own pace. */
export function buildProgress(line: ProgressLine, startedMs: number): (progress: BuildProgress) => void {
  let first: bigint | null = null;
  return ({ done, total, batches }) => {
    first ??= done;
    const part = total === 0n ? 1 : Number((done * 1000n) / total) / 1000;
    const here = Number(done - first);
    const left = here <= 0 ? '' : `, ${leftText(((Date.now() - startedMs) / here) * Number(total - done))}`;
    line.show(Math.min(1, part), `${done} of ${total} events, ${batches} batches${left}`);
  };
}

export function leftText(ms: number | null): string {
  return ms === null ? '' : `about ${Math.ceil(ms / 1000)} s left`;
}
