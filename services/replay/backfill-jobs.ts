/**
 * Backfills in the running service: a whole table through the reader's snapshot (resumed after a restart), or the rows of a
 * condition, or a table within a byte rate, as a walk over its pages, each step one chunk between two watermarks. Streaming
 * goes on; what a transaction changes meanwhile comes by the stream and is newer. One job a table.
 */
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import { requireCondition } from './source-condition.ts';

export interface BackfillRequest {
  readonly schema: string;
  readonly table: string;
  /** SQL over the table's columns; null = every row. */
  readonly where: string | null;
  /** Bytes of the table's pages read a second; null = as fast as it goes. */
  readonly bytesPerSecond: number | null;
  /** Of a whole table: rows that the source no longer has go first. */
  readonly exact: boolean;
}

export type BackfillPhase = 'running' | 'done' | 'failed' | 'cancelled';

export interface BackfillState {
  readonly id: number;
  /** `schema.table` */
  readonly table: string;
  readonly where: string | null;
  readonly phase: BackfillPhase;
  /** Rows put into the log. */
  readonly rows: number;
  /** 0 to 1 */
  readonly progress: number;
  readonly startedAtMs: number;
  /** ms that are left, by the speed so far; null = not known yet. */
  readonly leftMs: number | null;
  /** A restart of the service goes on with it. */
  readonly resumable: boolean;
  readonly error: { readonly message: string; readonly code: string; readonly remedy: string } | null;
}

/** The table as the reader shows it; null while it reconnects. */
export interface SnapshotView {
  readonly snapshotting: boolean;
  readonly progress: number;
  readonly rows: number;
  readonly stopped: { readonly state: string; readonly detail: string; readonly remedy: string } | null;
}

export interface BackfillPorts {
  readonly resnapshot: (schema: string, table: string, exact: boolean) => Promise<void>;
  readonly fetchRows: (schema: string, table: string, condition: string) => Promise<number>;
  readonly snapshot: (schema: string, table: string) => SnapshotView | null;
  /** Pages of the table's largest heap, and whether at most `rowsMax` rows match. */
  readonly measure: (
    request: BackfillRequest,
    rowsMax: number,
  ) => Promise<{ readonly pages: number; readonly few: boolean }>;
  readonly sleep: (ms: number) => Promise<void>;
  readonly now: () => number;
}

export interface BackfillJobs {
  /** @throws SluiceError BACKFILL_RUNNING; ConfigError for a condition that is none */
  start(request: BackfillRequest): BackfillState;
  list(): readonly BackfillState[];
  /** @throws SluiceError NO_BACKFILL */
  cancel(table: string): BackfillState;
}

type Job = { -readonly [K in keyof BackfillState]: BackfillState[K] };

export const PAGE_BYTES = 8192;
/** Pages of one chunk of a walk: what is held in memory at once. */
const PAGES_PER_CHUNK = 512;
/** A condition that matches no more rows is read in one chunk, through an index if there is one. */
const FEW_ROWS = 10_000;
const POLL_MS = 200;
const RETRIES_MAX = 60;
const RETRY_MS = 1_000;
const KEPT = 50;

export function createBackfillJobs(ports: BackfillPorts): BackfillJobs {
  const jobs: Job[] = [];
  let ids = 0;
  const running = (table: string): Job | undefined =>
    jobs.find((job) => job.table === table && job.phase === 'running');

  return {
    start(request) {
      const table = `${request.schema}.${request.table}`;
      if (request.where !== null) requireCondition(request.where);
      if (running(table) !== undefined)
        throw new SluiceError('BACKFILL_RUNNING', `a backfill of ${table} is running`, {
          exit: ExitCode.findings,
          remedy: `wait for it, or \`sluice backfill ${table} --cancel\``,
        });
      const job: Job = {
        id: ++ids,
        table,
        where: request.where,
        phase: 'running',
        rows: 0,
        progress: 0,
        startedAtMs: ports.now(),
        leftMs: null,
        resumable: request.where === null && request.bytesPerSecond === null,
        error: null,
      };
      jobs.push(job);
      if (jobs.length > KEPT) jobs.splice(0, jobs.length - KEPT);
      const work = job.resumable ? readTable(job, request, ports) : walk(job, request, ports);
      work.then(
        () => end(job, 'done'),
        (error: unknown) => {
          job.error = failureOf(error);
          end(job, 'failed');
        },
      );
      return { ...job };
    },
    list: () => jobs.map((job) => ({ ...job })),
    cancel(table) {
      const job = running(table);
      if (job === undefined)
        throw new SluiceError('NO_BACKFILL', `no backfill of ${table} is running`, {
          exit: ExitCode.usage,
          remedy: 'see `sluice status`',
        });
      if (job.resumable)
        throw new SluiceError('BACKFILL_WHOLE', `${table} is read whole, as in its first snapshot`, {
          exit: ExitCode.usage,
          remedy: 'that is carried to its end; a backfill with --rate or --where can be cancelled',
        });
      job.phase = 'cancelled';
      return { ...job };
    },
  };
}

function end(job: Job, phase: BackfillPhase): void {
  if (job.phase === 'running') job.phase = phase;
  if (job.phase === 'done') job.progress = 1;
  job.leftMs = job.phase === 'done' ? 0 : null;
}

async function readTable(job: Job, { schema, table, exact }: BackfillRequest, ports: BackfillPorts): Promise<void> {
  const before = ports.snapshot(schema, table)?.rows ?? 0;
  await retrying(ports, () => ports.resnapshot(schema, table, exact));
  for (;;) {
    const now = ports.snapshot(schema, table);
    if (now !== null) {
      if (now.stopped !== null)
        throw new SluiceError(now.stopped.state, now.stopped.detail, {
          exit: ExitCode.namedState,
          remedy: now.stopped.remedy,
        });
      job.rows = Math.max(0, now.rows - before);
      if (!now.snapshotting) return;
      advance(job, now.progress, ports);
    }
    await ports.sleep(POLL_MS);
  }
}

async function walk(job: Job, request: BackfillRequest, ports: BackfillPorts): Promise<void> {
  const { schema, table, where, bytesPerSecond } = request;
  const { pages, few } = await retrying(ports, () => ports.measure(request, FEW_ROWS));
  if (few && where !== null) {
    job.rows = await retrying(ports, () => ports.fetchRows(schema, table, where));
    return;
  }
  for (let page = 0; job.phase === 'running'; page += PAGES_PER_CHUNK) {
    const last = page + PAGES_PER_CHUNK >= pages;
    const condition = `${where === null ? '' : `(${where}) AND `}${pageRange(page, last ? null : page + PAGES_PER_CHUNK)}`;
    job.rows += await retrying(ports, () => ports.fetchRows(schema, table, condition));
    if (last) return;
    advance(job, (page + PAGES_PER_CHUNK) / pages, ports);
    if (bytesPerSecond !== null) await rest(job, (PAGES_PER_CHUNK * PAGE_BYTES * 1_000) / bytesPerSecond, ports);
  }
}

/** Rows that lie in these pages; the last range is open, for what was appended meanwhile. */
export function pageRange(from: number, to: number | null): string {
  return `ctid >= '(${from},0)'::tid${to === null ? '' : ` AND ctid < '(${to},0)'::tid`}`;
}

async function rest(job: Job, ms: number, ports: BackfillPorts): Promise<void> {
  const until = ports.now() + ms;
  for (let left = ms; left > 0 && job.phase === 'running'; left = until - ports.now())
    await ports.sleep(Math.min(POLL_MS, left));
}

function advance(job: Job, progress: number, ports: BackfillPorts): void {
  job.progress = Math.min(1, Math.max(0, progress));
  const spent = ports.now() - job.startedAtMs;
  job.leftMs = job.progress > 0.01 ? Math.round((spent / job.progress) * (1 - job.progress)) : null;
}

/** The reader reconnects by itself: what it lost is asked again. */
async function retrying<T>(ports: BackfillPorts, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if ((error as { retriable?: unknown } | null)?.retriable !== true || attempt >= RETRIES_MAX) throw error;
      await ports.sleep(RETRY_MS);
    }
  }
}

function failureOf(error: unknown): NonNullable<BackfillState['error']> {
  const { code, remedy } = (error ?? {}) as { code?: unknown; remedy?: unknown };
  return {
    message: error instanceof Error ? error.message : String(error),
    code: typeof code === 'string' ? code : 'FAILED',
    remedy: typeof remedy === 'string' ? remedy : '',
  };
}
