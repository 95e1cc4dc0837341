/** What the running service does on command. A table is reached through its one owner: this process. */
import { setTimeout as sleep } from 'node:timers/promises';
import { nearest } from '../../contracts/engine/nearest.ts';
import type { ListOptions } from '../ingest/quarantine-list.ts';
import type { QuarantineStatus } from '../ingest/quarantine-row.ts';
import type { IngestStatus } from '../ingest/status.ts';
import type { TableQuarantine } from '../ingest/pipeline.ts';
import type { ReaderHandle } from '../reader/reader-options.ts';
import { createReplayJobs, type ReplayJobs, type ReplayOrder } from '../replay/replay/replay-jobs.ts';
import { createBackfillJobs, type BackfillJobs, type SnapshotView } from '../replay/backfill-jobs.ts';
import type { Config } from '../runtime/config.ts';
import { textField, textList, type ControlActions, type ControlBody } from '../runtime/control-routes.ts';
import { ConfigError, ExitCode, SluiceError } from '../runtime/errors.ts';
import type { FailpointHook } from '../runtime/failpoints.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { replayParts, requireOwnTopics } from './assemble/replay-parts.ts';
import { writeDifferences } from './found-differences.ts';
import { readBackfills, writeBackfills } from './kept-backfills.ts';
import { tailOf, tailText } from './log-tail-text.ts';
import { tableControl } from './control-tables.ts';
import { pausedTables, readPaused } from './paused-tables.ts';
import type { Pipeline } from './pipeline.ts';
import { measureRead, withReadOnly } from './source-estimate.ts';
import { statusReport } from './status-report.ts';
import { parseTableName, type TableName } from './table-name.ts';

/** Keys of one command; more come in several. */
export const KEYS_PER_CALL = 1_000;

export interface PauseAnswer {
  readonly tables: readonly string[];
  /** ms since 1970 until which the log keeps what a paused table did not take; null = until it is resumed. */
  readonly keptUntilMs: number | null;
}

export async function createControl(
  pipeline: Pipeline,
  config: Config,
  metrics: Metrics,
  failpoint: FailpointHook = () => undefined,
): Promise<ControlActions> {
  const { ingest, lake } = pipeline;
  const paused = pausedTables(lake);
  if (ingest !== null) for (const id of await readPaused(lake)) ingest.pause(id);
  const jobs = backfillJobs(pipeline);
  if (pipeline.reader !== null) jobs.restore(await readBackfills(lake));
  const replays = ingest === null ? null : await replayJobs(pipeline, config, failpoint);

  const lakeTable = (name: string): string =>
    known(
      name,
      streamOf(pipeline)
        .status()
        .tables.map(({ table }) => table),
    );
  async function setPaused(body: ControlBody, pause: boolean): Promise<PauseAnswer> {
    const stream = streamOf(pipeline);
    const tables = (textList(body, 'tables') ?? []).map(lakeTable);
    if (tables.length === 0) throw new ConfigError('no table was named', 'name at least one table');
    for (const id of tables)
      if (pause) stream.pause(id);
      else stream.resume(id);
    await paused.change(tables, pause);
    const lagMs = Math.max(
      0,
      ...stream
        .status()
        .tables.filter(({ table }) => tables.includes(table))
        .map(({ lagSeconds }) => lagSeconds * 1_000),
    );
    // The embedded log lets go only of what every table has taken.
    const kept = config.log.kind === 'embedded' || config.log.retention < 0;
    return { tables, keptUntilMs: kept ? null : Date.now() + config.log.retention - lagMs };
  }
  const quarantineOf = (body: ControlBody): TableQuarantine => {
    const found = streamOf(pipeline).quarantine(lakeTable(textField(body, 'table')));
    if (found === null) throw new ConfigError('the table is not ingested here', 'see `sluice status`');
    return found;
  };
  const idsOf = (body: ControlBody): ReadonlySet<string> | null => {
    const ids = textList(body, 'ids');
    return ids === null ? null : new Set(ids);
  };

  /** Of tables that may be unknown to the stream yet. */
  const hold = async (tables: readonly string[], pause: boolean): Promise<{ readonly tables: readonly string[] }> => {
    const stream = streamOf(pipeline);
    // Written first: one that is taken over just now goes by what is written.
    const changed = await paused.change(tables, pause);
    if (pause) for (const id of tables) stream.pause(id);
    else for (const id of changed) stream.resume(id);
    return { tables };
  };

  return {
    ...tableControl(() => readerOf(pipeline), hold),
    pause: (body) => setPaused(body, true),
    resume: (body) => setPaused(body, false),
    backfill: async (body) => {
      const name = sourceName(pipeline, body);
      const rate = body['rate'] ?? null;
      if (rate !== null && !(typeof rate === 'number' && rate > 0))
        throw new ConfigError('the rate is bytes a second', 'give a number above 0');
      const where = body['where'] ?? null;
      if (where !== null && typeof where !== 'string') throw new ConfigError('the condition is a text', 'give SQL');
      const parallel = body['parallel'] ?? 1;
      if (typeof parallel !== 'number' || !Number.isInteger(parallel) || parallel < 1 || parallel > PARALLEL_MAX)
        throw new ConfigError('steps at once are a whole number', `give 1 to ${PARALLEL_MAX}`);
      const exact = body['exact'] === true;
      const columns = columnList(body['columns'] ?? null);
      const wanted = { ...name, where, bytesPerSecond: rate, exact, parallel };
      return Promise.resolve(jobs.start(columns === null ? wanted : { ...wanted, columns }));
    },
    'check-tables': async () => {
      await checkTables(pipeline);
      return statusReport(pipeline, config.name);
    },
    // Another path than /status: of two halves, the reader's is asked.
    'reader-status': () => {
      readerOf(pipeline);
      return Promise.resolve(statusReport(pipeline, config.name));
    },
    'mend-source': async () => {
      const reader = readerOf(pipeline);
      const was = reader.status().stopped;
      await reader.mendSource?.();
      return { was: was?.state ?? null };
    },
    'log-tail': async (body) => {
      const table = lakeTable(textField(body, 'table'));
      const tail = await streamOf(pipeline).logTail(table);
      if (tail === null) throw new ConfigError('the table is not ingested here', 'see `sluice status`');
      return tailText(tail);
    },
    reread: async (body) => {
      const { schema, table } = sourceName(pipeline, body);
      await readerOf(pipeline).resnapshot(schema, table, true);
      return { table: `${schema}.${table}` };
    },
    'retype-table': async (body) => {
      const table = lakeTable(textField(body, 'table'));
      return { table, columns: await streamOf(pipeline).retype(table, body['dryRun'] === true) };
    },
    'move-table': async (body) => {
      const table = lakeTable(textField(body, 'table'));
      await streamOf(pipeline).moveTo(table, tailOf(body['tail']));
      return { table };
    },
    backfills: () => Promise.resolve({ backfills: jobs.list() }),
    'pause-backfill': (body) => Promise.resolve(jobs.pause(sourceTable(pipeline, textField(body, 'table')))),
    'resume-backfill': (body) => Promise.resolve(jobs.resume(sourceTable(pipeline, textField(body, 'table')))),
    'cancel-backfill': (body) => Promise.resolve(jobs.cancel(sourceTable(pipeline, textField(body, 'table')))),
    'fetch-keys': async (body) => {
      const { schema, table } = sourceName(pipeline, body);
      const keys = keysOf(body);
      return { rows: await readerOf(pipeline).fetchKeys(schema, table, keys, body['removeAbsent'] === true) };
    },
    verified: async (body) => {
      const { mismatches, coverage } = body;
      if (typeof mismatches !== 'number' || typeof coverage !== 'number' || !(mismatches >= 0))
        throw new ConfigError('a verification has mismatches and coverage', 'give two numbers');
      if (typeof body['pipeline'] === 'string' && body['pipeline'] !== config.name)
        throw new ConfigError(`this service runs the pipeline '${config.name}'`, 'see http.port of the configuration');
      const table = lakeTable(textField(body, 'table'));
      metrics.verifyMismatches.inc({ table }, mismatches);
      metrics.verifyCoverage.set({ table }, coverage);
      // A part of the rows says that there is a difference, and not that there is none.
      const found = mismatches > 0 ? { mismatches, atMs: Date.now() } : null;
      if (found !== null) pipeline.verified.set(table, found);
      if (found !== null || (body['whole'] !== false && pipeline.verified.has(table))) {
        await writeDifferences(lake, table, found);
        if (found === null) pipeline.verified.delete(table);
      }
      return { table };
    },
    replay: async (body) => {
      streamOf(pipeline);
      return Promise.resolve(replaysOf(replays).start(replayOrder(body, lakeTable)));
    },
    'replay-state': async (body) => Promise.resolve({ job: replaysOf(replays).find(numberField(body, 'id')) }),
    'cancel-replay': async (body) => Promise.resolve(replaysOf(replays).cancel(lakeTable(textField(body, 'table')))),
    'quarantine-list': async (body) => ({ rows: await quarantineOf(body).list(listOptions(body)) }),
    'quarantine-show': async (body) => ({ row: await quarantineOf(body).show(textField(body, 'id')) }),
    'quarantine-retry': async (body) => quarantineOf(body).retry(idsOf(body)),
    'quarantine-drop': async (body) => {
      const ids = idsOf(body);
      if (ids === null) throw new ConfigError('no row was named', 'name the ids that `sluice quarantine list` shows');
      return { dropped: await quarantineOf(body).drop(ids) };
    },
  };
}

function replayJobs(pipeline: Pipeline, config: Config, failpoint: FailpointHook): Promise<ReplayJobs> {
  return replayParts(config, pipeline, failpoint).then((parts) =>
    createReplayJobs({
      parts,
      owned(id) {
        requireOwnTopics(config);
        const owned = streamOf(pipeline).owned(id);
        if (owned === null) throw new ConfigError(`${id} is not ingested here`, 'see `sluice status`');
        return owned;
      },
    }),
  );
}

function replaysOf(replays: ReplayJobs | null): ReplayJobs {
  if (replays === null) throw otherHalf('stream');
  return replays;
}

function replayOrder(body: ControlBody, lakeTable: (name: string) => string): ReplayOrder {
  const kind = textField(body, 'kind');
  const table = parseTableName(lakeTable(textField(body, 'table')));
  switch (kind) {
    case 'in-place':
      return { kind, table, from: textField(body, 'from'), to: textField(body, 'to') };
    case 'swap':
      return { kind, table, into: parseTableName(textField(body, 'into')) };
    case 'undo':
      return { kind, table };
    default:
      throw new ConfigError(`no replay is '${kind}'`, 'expected: in-place, swap or undo');
  }
}

function numberField(body: ControlBody, name: string): number {
  const value = body[name];
  if (typeof value === 'number') return value;
  throw new ConfigError(`'${name}' is a number`, 'give the id that the start answered');
}

/** Steps of a backfill that are read at once. */
const PARALLEL_MAX = 16;
const APPEAR_MS = 60_000;
const APPEAR_POLL_MS = 100;

/** Looks where every table stands, the reader's as soon as the stream knows it: one that cannot go on stops by name now. */
async function checkTables(pipeline: Pipeline): Promise<void> {
  const ingest = streamOf(pipeline);
  const { reader } = pipeline;
  const known = (): Set<string> => new Set(ingest.status().tables.map(({ table }) => table));
  const followed = (reader?.status().tables ?? [])
    .filter(({ phase }) => phase === 'snapshotting' || phase === 'streaming')
    .map(({ schema, table }) => `${schema}.${table}`);
  const deadline = Date.now() + APPEAR_MS;
  while (lacksTables(ingest.status(), followed) && Date.now() < deadline) await sleep(APPEAR_POLL_MS);
  for (const id of known()) await ingest.check(id);
}

/** Whether tables that the reader follows are not seen yet. Of several workers each has its own, and knows of the others'. */
export function lacksTables(
  { group, tables }: Pick<IngestStatus, 'group'> & { readonly tables: readonly { readonly table: string }[] },
  followed: readonly string[],
): boolean {
  if (group !== null && group.workers > 1) return group.of < followed.length;
  return followed.some((id) => !tables.some(({ table }) => table === id));
}

const STATUSES: ReadonlySet<string> = new Set(['parked', 'healed', 'released', 'dropped']);
const LIST_MAX = 10_000;

/** @throws ConfigError */
export function listOptions(body: ControlBody): ListOptions {
  const statuses = textList(body, 'statuses') ?? ['parked'];
  const wrong = statuses.find((status) => !STATUSES.has(status));
  if (wrong !== undefined)
    throw new ConfigError(`no parked row is '${wrong}'`, `expected: ${[...STATUSES].join(', ')}`);
  const limit = body['limit'] ?? 100;
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1)
    throw new ConfigError('the limit is a whole number above 0', 'such as 100');
  const rule = body['rule'] ?? null;
  return {
    statuses: new Set(statuses as QuarantineStatus[]),
    ruleId: typeof rule === 'string' ? rule : null,
    limit: Math.min(limit, LIST_MAX),
  };
}

function keysOf(body: ControlBody): readonly (readonly string[])[] {
  const keys = body['keys'];
  const fits = (key: unknown): boolean => Array.isArray(key) && key.every((cell) => typeof cell === 'string');
  if (!Array.isArray(keys) || !keys.every(fits))
    throw new ConfigError("'keys' is a list of keys", 'each a list of the key columns as texts');
  if (keys.length > KEYS_PER_CALL)
    throw new ConfigError(`more than ${KEYS_PER_CALL} keys`, 'send them in several parts');
  return keys as string[][];
}

function columnList(value: unknown): readonly string[] | null {
  if (value === null) return null;
  if (Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === 'string'))
    return value as string[];
  throw new ConfigError('the columns are a list of names', 'give at least one');
}

function backfillJobs(pipeline: Pipeline): BackfillJobs {
  return createBackfillJobs({
    resnapshot: (schema, table, exact) => readerOf(pipeline).resnapshot(schema, table, exact),
    fetchRows: (schema, table, condition, columns) => readerOf(pipeline).fetchRows(schema, table, condition, columns),
    snapshot: (schema, table) => snapshotView(pipeline.reader, schema, table),
    holdSnapshot: (schema, table, hold) => pipeline.reader?.holdSnapshot(schema, table, hold),
    measure: async (request, rowsMax) => {
      const { source } = pipeline;
      if (source === null) throw otherHalf('reader');
      return withReadOnly(source, 'backfill', (session) => measureRead(session, request, rowsMax));
    },
    keep: (walks) => writeBackfills(pipeline.lake, walks),
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref()),
    now: Date.now,
  });
}

function snapshotView(reader: ReaderHandle | null, schema: string, table: string): SnapshotView | null {
  const found = reader?.status().tables.find((each) => each.schema === schema && each.table === table);
  if (found === undefined) return null;
  return {
    snapshotting: found.phase === 'snapshotting',
    progress: found.snapshotProgress ?? 0,
    rows: Number(found.snapshotRows),
    stopped: found.phase === 'snapshotting' ? null : found.reason,
  };
}

function sourceTable(pipeline: Pipeline, name: string): string {
  return known(
    name,
    readerOf(pipeline)
      .status()
      .tables.map(({ schema, table }) => `${schema}.${table}`),
  );
}

function sourceName(pipeline: Pipeline, body: ControlBody): TableName {
  const id = sourceTable(pipeline, textField(body, 'table'));
  return halvesOf(id, readerOf(pipeline).status().tables);
}

/** An id's schema and table as they are followed: a dot may stand in either. */
export function halvesOf(id: string, followed: readonly TableName[]): TableName {
  return followed.find(({ schema, table }) => `${schema}.${table}` === id) ?? parseTableName(id);
}

function known(name: string, tables: readonly string[]): string {
  const { schema, table } = parseTableName(name);
  const id = `${schema}.${table}`;
  if (tables.includes(id)) return id;
  const near = nearest(id, tables);
  throw new ConfigError(
    `the pipeline has no table ${id}`,
    near === null ? 'see `sluice status` for the tables' : `did you mean '${near}'?`,
  );
}

function readerOf({ reader }: Pipeline): ReaderHandle {
  if (reader === null) throw otherHalf('reader');
  return reader;
}

function streamOf({ ingest }: Pipeline): NonNullable<Pipeline['ingest']> {
  if (ingest === null) throw otherHalf('stream');
  return ingest;
}

function otherHalf(half: 'reader' | 'stream'): SluiceError {
  return new SluiceError('OTHER_HALF', `this service is not the pipeline's ${half}`, {
    exit: ExitCode.environment,
    remedy: `name the endpoint of \`sluice ${half}\` or \`sluice run\` with --url`,
  });
}
