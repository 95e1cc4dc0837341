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
  /** Steps of a walk that are read at once; default 1. */
  readonly parallel?: number;
  /** Only these are read, beside the key, and filled into the rows that stand in the lake; absent = all. */
  readonly columns?: readonly string[];
}

/** A walk, or a whole read that is held, as it is kept, so that a restart of the service goes on with it. */
export interface KeptBackfill extends BackfillRequest {
  /** First page that is not in the log yet. */
  readonly page: number;
  readonly rows: number;
  readonly paused: boolean;
}

export type BackfillPhase = 'running' | 'paused' | 'done' | 'failed' | 'cancelled';

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
  readonly fetchRows: (
    schema: string,
    table: string,
    condition: string,
    columns?: readonly string[],
  ) => Promise<number>;
  readonly snapshot: (schema: string, table: string) => SnapshotView | null;
  /** Holds a table's snapshot between two chunks, or sets it going again. */
  readonly holdSnapshot: (schema: string, table: string, hold: boolean) => void;
  /** Pages of the table's largest heap, and whether at most `rowsMax` rows match. */
  readonly measure: (
    request: BackfillRequest,
    rowsMax: number,
  ) => Promise<{ readonly pages: number; readonly few: boolean }>;
  /** Keeps the walks that are not at their end, and whole reads that are held. */
  readonly keep?: (walks: readonly KeptBackfill[]) => Promise<void>;
  readonly sleep: (ms: number) => Promise<void>;
  readonly now: () => number;
}

export interface BackfillJobs {
  /** @throws SluiceError BACKFILL_RUNNING; ConfigError for a condition that is none */
  start(request: BackfillRequest): BackfillState;
  list(): readonly BackfillState[];
  /** Takes up walks that an earlier service left. */
  restore(walks: readonly KeptBackfill[]): void;
  /** Holds it between two steps or chunks, over a restart of the service, too. @throws SluiceError NO_BACKFILL */
  pause(table: string): BackfillState;
  /** @throws SluiceError NO_BACKFILL */
  resume(table: string): BackfillState;
  /** @throws SluiceError NO_BACKFILL; BACKFILL_WHOLE: half a reading would leave rows that nobody compares with */
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
  const walks = new Map<Job, KeptBackfill>();
  const requests = new Map<Job, BackfillRequest>();
  const isLive = ({ phase }: Job): boolean => phase === 'running' || phase === 'paused';
  const live = (table: string): Job | undefined => jobs.find((job) => job.table === table && isLive(job));
  let keeping: Promise<unknown> = Promise.resolve();
  /** A note that fails costs a step that is read twice. */
  const keep = (): void => {
    const notes = [...walks].filter(([job]) => isLive(job)).map(([, walk]) => walk);
    keeping = keeping.then(() => ports.keep?.(notes)).catch(() => undefined);
  };

  function begin(request: BackfillRequest, from: KeptBackfill | null): Job {
    const job: Job = {
      id: ++ids,
      table: `${request.schema}.${request.table}`,
      where: request.where,
      phase: from?.paused === true ? 'paused' : 'running',
      rows: from?.rows ?? 0,
      progress: 0,
      startedAtMs: ports.now(),
      leftMs: null,
      resumable: true,
      error: null,
    };
    jobs.push(job);
    if (jobs.length > KEPT) jobs.splice(0, jobs.length - KEPT);
    requests.set(job, request);
    if (!isWalk(request)) {
      if (job.phase === 'paused') walks.set(job, { ...request, page: 0, rows: job.rows, paused: true });
      // The reader goes on with a snapshot by itself.
      void settle(job, readTable(job, request, ports, from === null));
    } else {
      const note = (page: number): void => {
        walks.set(job, { ...request, page, rows: job.rows, paused: job.phase === 'paused' });
        keep();
      };
      note(from?.page ?? 0);
      void settle(job, walk(job, request, ports, from?.page ?? 0, note));
    }
    return job;
  }

  async function settle(job: Job, work: Promise<void>): Promise<void> {
    try {
      await work;
      end(job, 'done');
    } catch (error) {
      job.error = failureOf(error);
      end(job, 'failed');
    }
    requests.delete(job);
    if (walks.delete(job)) keep();
  }

  function liveJob(table: string, cancel: boolean): Job {
    const job = live(table);
    if (job === undefined)
      throw new SluiceError('NO_BACKFILL', `no backfill of ${table} is running`, {
        exit: ExitCode.usage,
        remedy: 'see `sluice backfill status`',
      });
    const request = requests.get(job);
    if (cancel && request !== undefined && !isWalk(request))
      throw new SluiceError('BACKFILL_WHOLE', `${table} is read whole, as in its first snapshot`, {
        exit: ExitCode.usage,
        remedy:
          'that is carried to its end, and can only be held; a backfill with --rate, --parallel or a condition can be cancelled',
      });
    return job;
  }
  const turn = (table: string, phase: 'running' | 'paused' | 'cancelled'): BackfillState => {
    const job = liveJob(table, phase === 'cancelled');
    job.phase = phase;
    const request = requests.get(job);
    const note = walks.get(job);
    if (request !== undefined && !isWalk(request)) {
      // Of a whole read the reader keeps the place; here only that it is held.
      if (phase === 'paused') walks.set(job, { ...request, page: 0, rows: job.rows, paused: true });
      else walks.delete(job);
      ports.holdSnapshot(request.schema, request.table, phase === 'paused');
    } else if (note !== undefined) walks.set(job, { ...note, paused: phase === 'paused' });
    keep();
    return { ...job };
  };

  return {
    start(request) {
      const table = `${request.schema}.${request.table}`;
      if (request.where !== null) requireCondition(request.where);
      if (live(table) !== undefined)
        throw new SluiceError('BACKFILL_RUNNING', `a backfill of ${table} is running`, {
          exit: ExitCode.findings,
          remedy: `wait for it, or \`sluice backfill cancel ${table}\``,
        });
      return { ...begin(request, null) };
    },
    list: () => jobs.map((job) => ({ ...job })),
    restore(kept) {
      for (const each of kept) if (live(`${each.schema}.${each.table}`) === undefined) begin(each, each);
    },
    pause: (table) => turn(table, 'paused'),
    resume: (table) => turn(table, 'running'),
    cancel: (table) => turn(table, 'cancelled'),
  };
}

const isWalk = ({ where, bytesPerSecond, parallel, columns }: BackfillRequest): boolean =>
  where !== null || bytesPerSecond !== null || (parallel ?? 1) > 1 || columns !== undefined;

function end(job: Job, phase: BackfillPhase): void {
  if (job.phase === 'running' || job.phase === 'paused') job.phase = phase;
  if (job.phase === 'done') job.progress = 1;
  job.leftMs = job.phase === 'done' ? 0 : null;
}

async function readTable(
  job: Job,
  { schema, table, exact }: BackfillRequest,
  ports: BackfillPorts,
  begin: boolean,
): Promise<void> {
  const before = ports.snapshot(schema, table)?.rows ?? 0;
  if (begin) await retrying(ports, () => ports.resnapshot(schema, table, exact));
  for (;;) {
    // Told again and again: a reader that connected anew has forgotten it.
    if (job.phase === 'paused') ports.holdSnapshot(schema, table, true);
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

async function walk(
  job: Job,
  request: BackfillRequest,
  ports: BackfillPorts,
  from: number,
  note: (page: number) => void,
): Promise<void> {
  const { schema, table, where, bytesPerSecond, columns } = request;
  await held(job, ports);
  const { pages, few } = await retrying(ports, () => ports.measure(request, FEW_ROWS));
  if (few && where !== null && job.phase === 'running') {
    job.rows = await retrying(ports, () => ports.fetchRows(schema, table, where, columns));
    return;
  }
  const parallel = Math.max(1, request.parallel ?? 1);
  const step = async (page: number): Promise<void> => {
    const condition = `${where === null ? '' : `(${where}) AND `}${pageRange(page, page + PAGES_PER_CHUNK >= pages ? null : page + PAGES_PER_CHUNK)}`;
    // Not `rows += await`: several steps end in between.
    const rows = await retrying(ports, () => ports.fetchRows(schema, table, condition, columns));
    job.rows += rows;
  };
  for (let page = from; job.phase === 'running';) {
    const starts = [page];
    while (starts.length < parallel && page + starts.length * PAGES_PER_CHUNK < pages)
      starts.push(page + starts.length * PAGES_PER_CHUNK);
    await Promise.all(starts.map(step));
    page += starts.length * PAGES_PER_CHUNK;
    if (page >= pages) return;
    note(page);
    advance(job, page / pages, ports);
    if (bytesPerSecond !== null)
      await rest(job, (starts.length * PAGES_PER_CHUNK * PAGE_BYTES * 1_000) / bytesPerSecond, ports);
    await held(job, ports);
  }
}

/** While somebody has paused it. */
async function held(job: Job, ports: BackfillPorts): Promise<void> {
  while (job.phase === 'paused') await ports.sleep(POLL_MS);
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
