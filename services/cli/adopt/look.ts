/**
 * The look before a takeover: what would be taken over, from where, and what speaks against it. Reads source, log and lake, and
 * changes nothing; `sluice adopt` acts on it, `sluice doctor` only shows it.
 */
import { createHasher } from '../../../contracts/engine/privacy.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { contractFolder } from '../../ingest/contract-files.ts';
import { createContractBook } from '../../ingest/contract-book.ts';
import { contractTools } from '../../ingest/contract-tools.ts';
import type { TablePlan } from '../../ingest/table-plan.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { epochAppId } from '../../ingest/txn-ids.ts';
import type { TableShape } from '../../log/event.ts';
import { LogError, type EventLog } from '../../log/log.ts';
import type { LogOffset, Lsn } from '../../log/position.ts';
import type { Publication } from '../../reader/publication.ts';
import { bareFromCatalog, createShapeHistory, describeColumns } from '../../reader/shapes.ts';
import type { SourceSession } from '../../reader/source.ts';
import { newTableState, publishedTable } from '../../reader/table-selection.ts';
import type { TableState } from '../../reader/reader-state.ts';
import { StreamError } from '../../stream/stream-error.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';
import { foreignTables } from '../assemble/foreign-tables.ts';
import { piiKey } from '../assemble/log-privacy.ts';
import { openTable } from '../verify-tables.ts';
import { fine, note, refused, type AdoptFinding } from './finding.ts';
import { lookAtLakeTable } from './lake-table-checks.ts';
import type { SparkCheckpoint, TopicOffsets } from './offsets.ts';
import { lookAtSlot } from './slot-checks.ts';

export interface AdoptTable {
  readonly schema: string;
  readonly table: string;
  readonly shape: TableShape;
  /** As the reader will know it; null for topics of others. */
  readonly state: TableState | null;
  /** Null: the log is new, and is read from its beginning. */
  readonly offsets: ReadonlyMap<number, LogOffset> | null;
  /** The lake's table has its position already: an earlier takeover came so far. */
  readonly done: boolean;
}

export interface AdoptLook {
  readonly findings: readonly AdoptFinding[];
  /** Tables of the lake that are taken over. */
  readonly tables: readonly AdoptTable[];
  /** Where the slot goes on; null for topics. */
  readonly from: Lsn | null;
}

export interface LookOptions {
  readonly config: Config;
  readonly lake: ObjectStore;
  readonly allowMissing: boolean;
  readonly scanKeys: boolean;
  readonly signal?: AbortSignal;
}

/** A slot and its publication, with the lake's tables as they stand. */
export async function lookAtSource(
  session: SourceSession,
  options: LookOptions,
  asked: Lsn | null,
  nowMs: number,
): Promise<AdoptLook> {
  const { config, lake } = options;
  const { publication, selected, from, findings: found } = await lookAtSlot(session, config, asked);
  const findings = [...found];
  const history = createShapeHistory();
  const tables: AdoptTable[] = [];
  for (const table of selected.taken) {
    const id = `${table.schema}.${table.table}`;
    const published = publication === null ? null : publishedTable(publication, table.schema, table.table);
    if (published === null) continue;
    const bare = await bareFromCatalog(session, table, published, storedGenerated(publication));
    const shape = history.add(bare, await describeColumns(session, bare));
    const snapshot = await openTable(lake, tableFolder(table.schema, table.table));
    if (snapshot === null) {
      findings.push(note(id, 'the lake has no such table: `sluice run` reads it from the source', ''));
      continue;
    }
    const done = isOurs(snapshot, config.name);
    findings.push(...(done ? [fine(id, 'was taken over already')] : await lakeFindings(options, id, shape, snapshot)));
    const state: TableState = { ...newTableState(table, nowMs, null), phase: 'streaming' };
    tables.push({ schema: table.schema, table: table.table, shape, state, offsets: null, done });
  }
  if (tables.length === 0 && !findings.some(({ level }) => level === 'refused'))
    findings.push(
      refused(
        'SOURCE_TABLE_MISSING',
        lake.uri,
        'the lake has none of the tables: there is nothing to take over',
        'put lake.uri so that <lake.uri>/<schema>/<table> are the tables; or start `sluice run`, which reads all of them',
      ),
    );
  return { findings, tables, from };
}

const storedGenerated = (publication: Publication | null): boolean => publication?.storedGenerated ?? false;

export interface TopicsRequest {
  readonly log: EventLog;
  readonly offsets: TopicOffsets;
  /** Where the offsets come from a Spark query's checkpoint. */
  readonly checkpoint: SparkCheckpoint | null;
}

/** Topics that Debezium writes, with the lake's tables as they stand. @throws ConfigError */
export async function lookAtTopics(options: LookOptions, request: TopicsRequest): Promise<AdoptLook> {
  const { config, lake } = options;
  const foreign = await foreignTables(config, contractFolder(config.contracts));
  if (foreign === null) throw new ConfigError('log.debezium.topics is empty', 'name the topics to adopt there');
  const unknown = [...request.offsets.keys()].filter((topic) => !foreign.some((table) => table.topic === topic));
  // A Spark query may read more topics than are wanted here.
  if (unknown.length > 0 && request.checkpoint === null)
    throw new ConfigError(
      `log.debezium.topics does not name ${unknown.join(', ')}`,
      'put the topic there, or leave out its offsets',
    );
  const findings: AdoptFinding[] = [];
  const tables: AdoptTable[] = [];
  for (const { topic, shape } of foreign) {
    const { schema, table } = shape;
    const id = `${schema}.${table}`;
    const snapshot = await openTable(lake, tableFolder(schema, table));
    if (snapshot === null) {
      findings.push(note(id, `the lake has no such table: \`sluice stream\` reads ${topic} from its beginning`, ''));
      continue;
    }
    const done = isOurs(snapshot, config.name);
    const offsets = request.offsets.get(topic) ?? null;
    if (done) findings.push(fine(id, 'was taken over already'));
    else {
      findings.push(...(await topicFindings(request, topic, offsets, snapshot)));
      findings.push(...(await lakeFindings(options, id, shape, snapshot)));
    }
    tables.push({ schema, table, shape, state: null, offsets: offsets ?? new Map(), done });
  }
  return { findings, tables, from: null };
}

async function topicFindings(
  { log, checkpoint }: TopicsRequest,
  topic: string,
  offsets: ReadonlyMap<number, LogOffset> | null,
  snapshot: Snapshot,
): Promise<readonly AdoptFinding[]> {
  const about = `topic ${topic}`;
  const position = (detail: string, fix: string): AdoptFinding => refused('ADOPT_POSITION', about, detail, fix);
  if (offsets === null)
    return [
      position(
        'nobody said where its table stands',
        'give --offsets topic:partition:offset,… (the next offset to read), or --checkpoint of the query that wrote it',
      ),
    ];
  let bounds: Awaited<ReturnType<typeof log.reader.bounds>>;
  try {
    bounds = await log.reader.bounds(topic);
  } catch (error) {
    if (!(error instanceof LogError) || error.code !== 'LOG_TOPIC_MISSING') throw error;
    return [
      refused('LOG_TOPIC_MISSING', about, 'there is no such topic', 'correct log.debezium.topics or log.brokers'),
    ];
  }
  const out: AdoptFinding[] = [];
  for (const [partition, { earliest, end }] of bounds) {
    const at = offsets.get(partition);
    if (at === undefined)
      out.push(position(`its partition ${partition} has no offset`, 'give the next offset of every partition'));
    else if (at < earliest)
      out.push(
        refused(
          'OFFSETS_EXPIRED',
          about,
          `partition ${partition}: offsets ${at} to ${earliest - 1n} were not read and are gone`,
          'the table lacks what they held: let Debezium take a new snapshot, or follow the source with a slot',
        ),
      );
    else if (at > end)
      out.push(
        refused(
          'TOPIC_RESET',
          about,
          `partition ${partition} ends at ${end}, before the offset ${at}`,
          'these offsets are of another topic of that name: it was made anew since, or the broker is another one',
        ),
      );
  }
  for (const partition of offsets.keys())
    if (!bounds.has(partition))
      out.push(position(`it has no partition ${partition}`, 'give the offsets of this topic'));
  const applied = checkpoint === null ? undefined : snapshot.txns.get(checkpoint.queryId)?.version;
  if (checkpoint !== null && applied !== undefined && applied < checkpoint.batchId)
    out.push(
      position(
        `the checkpoint finished batch ${checkpoint.batchId}, and the table has only batch ${applied} of that query`,
        'the table was set back or is a copy: give --offsets of what it holds',
      ),
    );
  if (out.length === 0)
    out.push(fine(about, [...offsets].map(([partition, at]) => `partition ${partition} from ${at}`).join(', ')));
  return out;
}

const isOurs = ({ txns }: Snapshot, name: string): boolean => txns.has(epochAppId(name));

/** Another sluice's rows have positions that mean nothing here. */
function otherPipeline({ txns }: Snapshot): string | null {
  for (const appId of txns.keys()) if (appId.endsWith(epochAppId(''))) return appId.slice(0, -epochAppId('').length);
  return null;
}

async function lakeFindings(
  options: LookOptions,
  id: string,
  shape: TableShape,
  snapshot: Snapshot,
): Promise<readonly AdoptFinding[]> {
  const other = otherPipeline(snapshot);
  if (other !== null)
    return [
      refused(
        'LAKE_TABLE_FOREIGN',
        id,
        `pipeline '${other}' wrote it, whose positions would stand above the new events`,
        `use that pipeline's name, or \`sluice repair ${id}\`, which reads the table again whole`,
      ),
    ];
  let plan: TablePlan;
  try {
    plan = await planOf(options, shape, snapshot);
  } catch (error) {
    if (!(error instanceof StreamError)) throw error;
    return [refused(error.code, id, error.message, error.remedy)];
  }
  const { allowMissing, scanKeys, signal } = options;
  return lookAtLakeTable({ id, snapshot, plan, allowMissing, scanKeys, ...(signal === undefined ? {} : { signal }) });
}

/** As the stream would plan it, and without the contract file that the stream would write. */
function planOf({ config, lake }: LookOptions, shape: TableShape, snapshot: Snapshot): Promise<TablePlan> {
  const key = piiKey(config);
  const folder = contractFolder(config.contracts);
  const book = createContractBook({
    pipeline: config.name,
    files: { load: (schema, table) => folder.load(schema, table), save: () => Promise.resolve() },
    tools: contractTools,
    hasher: key === null ? null : createHasher(key),
    store: lake,
  });
  return book.current(shape, snapshot.schema, null);
}
