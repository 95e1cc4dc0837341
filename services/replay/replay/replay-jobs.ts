/** Replays, swaps and undos that the tables' owner runs on command, one a table at a time; their state is asked for by polling. */
import type { OwnedTable } from '../../ingest/ingest-options.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { idOf, type TableId } from './build-table.ts';
import { replayInPlace, type InPlaceResult } from './in-place.ts';
import type { ReplayParts } from './parts.ts';
import { parseRangePoint } from './range-point.ts';
import type { SwapResult } from './swap-steps.ts';
import { undoSwap } from './swap-undo.ts';
import { swapTable } from './table-swap.ts';

export type ReplayOrder =
  | { readonly kind: 'in-place'; readonly table: TableId; readonly from: string; readonly to: string }
  | { readonly kind: 'swap'; readonly table: TableId; readonly into: TableId }
  | { readonly kind: 'undo'; readonly table: TableId };

export interface ReplayJobState {
  readonly id: number;
  readonly kind: ReplayOrder['kind'];
  readonly table: string;
  readonly phase: 'running' | 'done' | 'failed' | 'cancelled';
  /** 0 to 1. */
  readonly progress: number;
  readonly startedAtMs: number;
  readonly leftMs: number | null;
  readonly replayed: InPlaceResult | null;
  readonly swapped: SwapResult | null;
  readonly error: {
    readonly message: string;
    readonly code: string;
    readonly remedy: string;
    readonly exit: number;
  } | null;
}

export interface ReplayJobs {
  /** @throws SluiceError REPLAY_RUNNING; ConfigError */
  start(order: ReplayOrder): ReplayJobState;
  find(id: number): ReplayJobState | null;
  /** Ends a replay in place behind its batch in hand, or a swap that is still copying. */
  cancel(table: string): ReplayJobState;
  stop(): void;
}

export interface ReplayJobsPorts {
  readonly parts: ReplayParts;
  /** @throws ConfigError where the table is not ingested here */
  readonly owned: (id: string) => OwnedTable;
}

type State = { -readonly [K in keyof ReplayJobState]: ReplayJobState[K] };

interface Job {
  readonly state: State;
  readonly abort: AbortController;
}

const KEPT = 100;

export function createReplayJobs({ parts, owned }: ReplayJobsPorts): ReplayJobs {
  const jobs: Job[] = [];
  let ids = 0;
  const running = (table: string): Job | undefined =>
    jobs.find(({ state }) => state.table === table && state.phase === 'running');

  return {
    start(order) {
      const table = idOf(order.table);
      const owner = owned(table);
      if (order.kind === 'in-place') {
        parseRangePoint('--from', order.from);
        parseRangePoint('--to', order.to);
      }
      if (running(table) !== undefined)
        throw new SluiceError('REPLAY_RUNNING', `a replay of ${table} is running`, {
          exit: ExitCode.findings,
          remedy: `wait for it, or \`sluice replay ${table} --cancel\``,
        });
      const state: State = {
        id: ++ids,
        kind: order.kind,
        table,
        phase: 'running',
        progress: 0,
        startedAtMs: parts.now(),
        leftMs: null,
        replayed: null,
        swapped: null,
        error: null,
      };
      const job: Job = { state, abort: new AbortController() };
      jobs.push(job);
      if (jobs.length > KEPT) jobs.splice(0, jobs.length - KEPT);
      run(parts, owner, order, job).then(
        () => {
          state.phase = 'done';
          state.progress = 1;
          state.leftMs = 0;
        },
        (error: unknown) => {
          state.phase = job.abort.signal.aborted ? 'cancelled' : 'failed';
          state.error = failureOf(error);
          state.leftMs = null;
        },
      );
      return { ...job.state };
    },
    find(id) {
      const job = jobs.find(({ state }) => state.id === id);
      return job === undefined ? null : { ...job.state };
    },
    cancel(table) {
      const job = running(table);
      if (job === undefined) throw new ConfigError(`no replay of ${table} is running`, 'see `sluice status`');
      job.abort.abort();
      return { ...job.state };
    },
    stop() {
      for (const job of jobs) job.abort.abort();
    },
  };
}

async function run(parts: ReplayParts, owner: OwnedTable, order: ReplayOrder, job: Job): Promise<void> {
  const { state } = job;
  const { signal } = job.abort;
  const advance = (progress: number): void => {
    state.progress = Math.min(1, Math.max(0, progress));
    const spent = parts.now() - state.startedAtMs;
    state.leftMs = state.progress > 0.01 ? Math.round((spent / state.progress) * (1 - state.progress)) : null;
  };
  switch (order.kind) {
    case 'in-place':
      state.replayed = await replayInPlace(parts, owner, order, {
        signal,
        onProgress: (done, total) => advance(total === 0n ? 1 : Number((done * 1000n) / total) / 1000),
      });
      return;
    case 'swap':
      state.swapped = await swapTable(parts, owner, order, { signal, onProgress: advance });
      return;
    case 'undo':
      state.swapped = await undoSwap(parts, owner, order.table, { signal, onProgress: advance });
  }
}

function failureOf(error: unknown): NonNullable<ReplayJobState['error']> {
  const { code, remedy, exit } = (error ?? {}) as { code?: unknown; remedy?: unknown; exit?: unknown };
  return {
    message: error instanceof Error ? error.message : String(error),
    code: typeof code === 'string' ? code : 'INTERNAL',
    remedy: typeof remedy === 'string' ? remedy : '',
    exit: typeof exit === 'number' ? exit : ExitCode.findings,
  };
}
