/** What `sluice run` would create, and what it would read: from catalogs, statistics and listings. Nothing is written anywhere. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { tableFolder } from '../ingest/table-target.ts';
import { dataTopic, progressTopic, readerTopic } from '../log/topics.ts';
import {
  addTablesSql,
  createPublicationSql,
  findPublication,
  missingTables,
  requireComplete,
} from '../reader/publication.ts';
import { findSlot } from '../reader/slot.ts';
import type { SourceSession } from '../reader/source.ts';
import { quoteLiteral } from '../reader/sql-text.ts';
import { selectTables } from '../reader/table-selection.ts';
import type { Config } from '../runtime/config.ts';
import { readIdentity } from './assemble/identity.ts';
import { unreadable } from './doctor/table-checks.ts';
import { estimateRead, type ReadEstimate } from './source-estimate.ts';
import { openTable } from './verify-tables.ts';
import { costOf, type ReadCost } from './read-cost.ts';
import { readSpeed } from './read-speed.ts';
import { walFacts } from './wal-facts.ts';

export interface PlannedObject {
  readonly kind: 'publication' | 'slot' | 'topic' | 'log folder' | 'lake table' | 'lake file';
  readonly name: string;
  readonly exists: boolean;
  /** The SQL that makes it, where there is one. */
  readonly sql: string | null;
}

export interface PlannedTable extends ReadEstimate {
  readonly table: string;
  /** At the speed of `firstRead`; a hint, no promise. */
  readonly minutes: number;
  /** Null = it is taken; else why not, and what to do. */
  readonly refused: { readonly why: string; readonly remedy: string } | null;
}

export interface RunPlan {
  /** Of the first read of all tables that are taken: rows, bytes, minutes, and the WAL that the slot holds back in that time. */
  readonly firstRead: ReadCost;
  /** Requests to the object store in 30 days, at most, when every table has something to commit at every trigger. */
  readonly storeRequestsAMonth: number;
  readonly objects: readonly PlannedObject[];
  readonly tables: readonly PlannedTable[];
  /** WAL written just now, bytes a second: what the slot holds back for every second that the service is down. */
  readonly walBytesPerSecond: number;
  /** max_slot_wal_keep_size in bytes; null = no limit. */
  readonly walLimitBytes: number | null;
}

/** Topics that stand in the log; null where it cannot be listed without making it. */
export type KnownTopics = ReadonlySet<string> | null;

export async function planRun(
  config: Config,
  session: SourceSession,
  lake: ObjectStore,
  topics: KnownTopics,
): Promise<RunPlan> {
  const tables: PlannedTable[] = [];
  const taken: { schema: string; table: string }[] = [];
  const selected = await selectTables(session, config.source.tables, config.log.kind);
  const hidden = await unreadable(session, selected.taken);
  const speed = await readSpeed(lake);
  for (const { schema, table, oid } of selected.taken) {
    const closed = hidden.get(oid);
    if (closed !== undefined) {
      const refused = { why: closed.message, remedy: closed.remedy };
      tables.push({ table: `${schema}.${table}`, rows: 0, bytes: 0, minutes: 0, refused });
      continue;
    }
    taken.push({ schema, table });
    const estimate = await estimateRead(session, schema, table, null);
    tables.push({
      table: `${schema}.${table}`,
      ...estimate,
      minutes: costOf(estimate, { walBytesPerSecond: 0, speed }).minutes,
      refused: null,
    });
  }
  // Not read, so not estimated: the server would refuse even to plan a read of some.
  for (const { schema, table, error } of selected.refused) {
    const refused = { why: error.message, remedy: error.remedy };
    tables.push({ table: `${schema}.${table}`, rows: 0, bytes: 0, minutes: 0, refused });
  }
  const partitioned = selected.taken.some(({ relkind }) => relkind === 'p');
  const wal = await walFacts(session);
  const read = tables.filter(({ refused }) => refused === null);
  const sum = (of: (table: PlannedTable) => number): number => read.reduce((total, table) => total + of(table), 0);
  return {
    firstRead: costOf(
      { rows: sum(({ rows }) => rows), bytes: sum(({ bytes }) => bytes) },
      { walBytesPerSecond: wal.walBytesPerSecond, speed },
    ),
    storeRequestsAMonth: storeRequests(config, read.length),
    objects: [
      ...(await sourceObjects(config, session, taken, partitioned)),
      ...logObjects(config, taken, topics),
      ...(await lakeObjects(lake, taken)),
    ],
    tables,
    ...wal,
  };
}

/** Plan, data, vector, commit of the table and of the checkpoint, and what is looked up and let go of. */
const REQUESTS_PER_BATCH = 10;
const MONTH_MS = 30 * 24 * 3600 * 1000;
/** `consistent.json` of an idle pipeline. */
const CUT_MS = 10_000;

function storeRequests({ stream: { trigger } }: Config, tables: number): number {
  // Run by a scheduler: as often as that says, counted here for one run.
  if (trigger === 'available-now') return tables * REQUESTS_PER_BATCH;
  return Math.round((tables * REQUESTS_PER_BATCH * MONTH_MS) / Math.max(trigger, 100) + MONTH_MS / CUT_MS);
}

async function sourceObjects(
  config: Config,
  session: SourceSession,
  taken: readonly { readonly schema: string; readonly table: string }[],
  partitioned: boolean,
): Promise<PlannedObject[]> {
  const { publication: name, slot: slotName } = config.source;
  const publication = await findPublication(session, name);
  const objects: PlannedObject[] = [];
  if (publication === null) {
    const sql = createPublicationSql(name, taken, session.serverVersion);
    objects.push({ kind: 'publication', name, exists: false, sql });
  } else {
    requireComplete(publication, partitioned);
    const missing = publication.allTables ? [] : missingTables(publication, taken);
    objects.push({
      kind: 'publication',
      name,
      exists: true,
      sql: missing.length > 0 ? addTablesSql(name, missing) : null,
    });
  }
  const exists = (await findSlot(session, slotName)) !== null;
  const sql = exists ? null : `SELECT pg_create_logical_replication_slot(${quoteLiteral(slotName)}, 'pgoutput')`;
  objects.push({ kind: 'slot', name: slotName, exists, sql });
  return objects;
}

function logObjects(
  { name, log }: Config,
  taken: readonly { readonly schema: string; readonly table: string }[],
  topics: KnownTopics,
): PlannedObject[] {
  if (log.kind === 'embedded') return [{ kind: 'log folder', name: log.path, exists: topics !== null, sql: null }];
  const wanted = [
    progressTopic(name),
    readerTopic(name),
    ...taken.map(({ schema, table }) => dataTopic(name, schema, table)),
  ];
  return wanted.map((topic) => ({ kind: 'topic', name: topic, exists: topics?.has(topic) === true, sql: null }));
}

async function lakeObjects(
  lake: ObjectStore,
  taken: readonly { readonly schema: string; readonly table: string }[],
): Promise<PlannedObject[]> {
  const objects: PlannedObject[] = [
    { kind: 'lake file', name: '_sluice/pipeline.json', exists: (await readIdentity(lake)) !== null, sql: null },
  ];
  for (const { schema, table } of taken) {
    const name = tableFolder(schema, table);
    objects.push({ kind: 'lake table', name, exists: (await openTable(lake, name)) !== null, sql: null });
  }
  return objects;
}
