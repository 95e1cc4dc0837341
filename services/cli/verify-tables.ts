/** Verify's ports on the real parts: source sessions, the lake's tables, their quarantine. */
import { setTimeout as sleep } from 'node:timers/promises';
import { selectTable } from '../../contracts/engine/compile.ts';
import { parseContract } from '../../contracts/engine/parse.ts';
import type { Hasher } from '../../contracts/engine/privacy.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { openSnapshot, type Snapshot } from '../../lakehouse/table/snapshot.ts';
import { TableError } from '../../lakehouse/table/table-error.ts';
import type { ContractFiles } from '../ingest/contract-files.ts';
import { tableFolder } from '../ingest/table-target.ts';
import type { Replaced, TableShape } from '../log/event.ts';
import { parseLsn } from '../log/position.ts';
import { MARK_PREFIX } from '../reader/message-pump.ts';
import type { PostgresSource, SourceSession } from '../reader/source.ts';
import { ownRowsOf } from '../reader/catalog.ts';
import { rowFilterOf } from '../reader/publication.ts';
import { quoteLiteral } from '../reader/sql-text.ts';
import { drawSample, type Sample } from '../replay/verify/buckets.ts';
import { comparableColumns, lakeSnapshot } from '../replay/verify/lake-snapshot.ts';
import { isHashed } from '../replay/verify/hashed-source.ts';
import { parkedKeyTexts, type KeyHash } from '../replay/verify/parked-keys.ts';
import { openSourceSnapshot } from '../replay/verify/source-snapshot.ts';
import { ConfigError } from '../runtime/errors.ts';
import { lookAgainAt } from './look-again.ts';
import { VERIFY_DEFAULTS, verifyTable, type TableVerification, type VerifyOptions } from '../replay/verify/verify.ts';

export interface VerifyRun {
  /** The primary: marks are written there. */
  readonly source: PostgresSource;
  /** Where rows are read: a replica, or the primary. What a replica shows was committed before the mark is written. */
  readonly readFrom?: PostgresSource;
  /** Whose row filters say which rows the lake has. */
  readonly publication: string;
  readonly lake: ObjectStore;
  readonly contracts: ContractFiles;
  /** Of `privacy.key`; null = none is set, and hashed columns are not compared. */
  readonly hasher: Hasher | null;
  readonly reached: (lsn: bigint) => Promise<void>;
  readonly where?: string | null;
  readonly bytesPerSecond?: number | null;
  /** Compare a part of the keys, drawn anew at each call: a share of them, or so many rows. */
  readonly sample?: SampleSize;
  readonly options?: Partial<VerifyOptions>;
}

export type SampleSize = { readonly share: number } | { readonly rows: number };

export interface TableReport extends TableVerification {
  /** Columns that were not compared, with the reason. */
  readonly left: readonly { readonly column: string; readonly reason: string }[];
}

/** Compares these tables one after the other. */
export async function verifyTables(shapes: readonly TableShape[], run: VerifyRun): Promise<TableReport[]> {
  const reports: TableReport[] = [];
  for (const shape of shapes) reports.push(await verifyOne(shape, run));
  return reports;
}

export async function verifyOne(shape: TableShape, run: VerifyRun): Promise<TableReport> {
  const folder = tableFolder(shape.schema, shape.table);
  const options = {
    ...VERIFY_DEFAULTS,
    conditional: (run.where ?? null) !== null,
    sample: run.sample === undefined ? null : await sampleOf(shape, run, run.sample),
    ...run.options,
  };
  const absent = (await openTable(run.lake, folder)) === null ? await absentTable(shape, folder, run) : null;
  if (absent !== null) return absent;
  const first = await openTable(run.lake, folder);
  if (first === null)
    throw new TypeError(`the lake's table ${shape.schema}.${shape.table} vanished while it was compared`);
  const altered = await alteredColumns(shape, run);
  const comparable = comparableColumns(shape, first, altered, await keepsOut(shape, run));
  refuseLostKey(shape, comparable.left);
  let looks = 0;
  const result = await verifyTable(
    comparable.shape,
    {
      async source(table) {
        const { source, readFrom = source } = run;
        const session =
          looks > 0 && readFrom !== source ? await lookAgainAt(source, readFrom) : await readFrom.session('verify');
        looks += 1;
        return orClosed(session, async () =>
          openSourceSnapshot(session, {
            ...(await reading(session, shape, run)),
            shape: table,
            asText: comparable.asText,
            hasher: run.hasher,
          }),
        );
      },
      reached: run.reached,
      async lake(table) {
        const snapshot = await openTable(run.lake, folder);
        return lakeSnapshot(snapshot ?? first, table);
      },
      parked: async (table) =>
        parkedKeyTexts(await openTable(run.lake, `${folder}__quarantine`), table, keyHash(shape, run.hasher)),
    },
    options,
  );
  const keyReplaced = comparable.shape.columns.some((column) => column.keyPosition > 0 && isHashed(column));
  return { ...result, left: comparable.left, ...(keyReplaced ? { keyReplaced } : {}) };
}

/** The session is the work's, and ends with it where it fails. */
async function orClosed<T>(session: SourceSession, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await session.close().catch(() => undefined);
    throw error;
  }
}

/** All columns of a table without key: together they identify a row. */
function hashedColumns({ columns }: TableShape): readonly string[] | null {
  return columns.some(({ keyPosition }) => keyPosition > 0) ? null : columns.map(({ name }) => name);
}

/** Buckets of a sample: many, so that a small share is one. */
const SAMPLE_BUCKETS = 65_536;

async function sampleOf(shape: TableShape, run: VerifyRun, size: SampleSize): Promise<Sample | null> {
  const share = 'share' in size ? size.share : size.rows / Math.max(1, await estimatedRows(shape, run));
  return share >= 1 ? null : drawSample(share, SAMPLE_BUCKETS, Math.random);
}

/** As the planner sees the table; partitions of a partitioned one together. */
async function estimatedRows(shape: TableShape, run: VerifyRun): Promise<number> {
  const session = await (run.readFrom ?? run.source).session('verify');
  try {
    const [row] = await session.query(
      `explain (format json) select 1 from ${await ownRowsOf(session, shape.schema, shape.table)}`,
    );
    const [plan] = JSON.parse(row?.['QUERY PLAN'] ?? '[]') as { Plan: { 'Plan Rows': number } }[];
    return plan?.Plan['Plan Rows'] ?? 1;
  } finally {
    await session.close();
  }
}

/** Which of the table's rows are read, and how fast. */
async function reading(session: SourceSession, shape: TableShape, run: VerifyRun) {
  return {
    hashed: hashedColumns(shape),
    where: run.where ?? null,
    rowFilter: await rowFilterOf(session, run.publication, shape),
    bytesPerSecond: run.bytesPerSecond ?? null,
    sleep: (ms: number) => sleep(ms),
    markBehind: () => markBehind(run.source),
  };
}

/**
 * A table that has no lake table yet equals the source only if nothing of it is to be there. Null = it came while we waited
 * for the lake: it is compared as any other then.
 */
async function absentTable(shape: TableShape, folder: string, run: VerifyRun): Promise<TableReport | null> {
  const session = await (run.readFrom ?? run.source).session('verify');
  const source = await orClosed(session, async () =>
    openSourceSnapshot(session, {
      ...(await reading(session, shape, run)),
      // Rows are counted; nothing of them is compared.
      shape: { ...shape, columns: shape.columns.map(({ replaced: _logged, ...own }) => own) },
      asText: new Set(),
    }),
  );
  try {
    const { rows } = await source.sums(1, null);
    await run.reached(source.lsn);
    if ((await openTable(run.lake, folder)) !== null) return null;
    const parked = await parkedKeyTexts(await openTable(run.lake, `${folder}__quarantine`), shape);
    return {
      table: `${shape.schema}.${shape.table}`,
      equal: rows <= parked.size,
      sourceRows: rows,
      lakeRows: 0,
      sampled: null,
      lsn: source.lsn,
      lakeVersion: -1n,
      parkedKeys: parked.size,
      differences: [],
      unsettled: 0,
      rounds: 0,
      left: [],
    };
  } finally {
    await source.close();
  }
}

/** LSN of a message that asks the reader for a mark behind it. */
export async function markBehind(source: PostgresSource): Promise<bigint> {
  const session = await source.session('verify mark');
  try {
    const [row] = await session.query(
      `select pg_logical_emit_message(true, ${quoteLiteral(MARK_PREFIX)}, '')::text as lsn`,
    );
    return parseLsn(row?.['lsn'] ?? '');
  } finally {
    await session.close();
  }
}

export async function openTable(lake: ObjectStore, folder: string): Promise<Snapshot | null> {
  try {
    return await openSnapshot(subStore(lake, folder));
  } catch (error) {
    if (error instanceof TableError && error.code === 'TABLE_NOT_FOUND') return null;
    throw error;
  }
}

/** Columns that the contract does not know, where it does not take up what it does not know. */
async function keepsOut(shape: TableShape, run: VerifyRun): Promise<(column: string) => boolean> {
  const found = await run.contracts.load(shape.schema, shape.table);
  const { contract } = found === null ? { contract: null } : parseContract(found.text, found.file);
  if (contract === null) return () => false;
  const table = selectTable(contract, shape);
  const known = new Set(table.columns.map(({ name }) => name));
  return (column) => (table.unknownColumns ?? 'evolve') !== 'evolve' && !known.has(column);
}

/** What privacy rules put in the values' place, in the log or behind it; null = a hash, and its key is not known here. */
async function alteredColumns(shape: TableShape, run: VerifyRun): Promise<ReadonlyMap<string, Replaced | null>> {
  const found = await run.contracts.load(shape.schema, shape.table);
  const altered = new Map<string, Replaced | null>();
  const put = (name: string, replaced: Replaced): void => {
    altered.set(name, replaced.startsWith('hash:') && run.hasher === null ? null : replaced);
  };
  // The contract may be gone, or say less than it did: what the log says of its own records stands.
  for (const { name, replaced } of shape.columns) if (replaced !== undefined) put(name, replaced);
  if (found === null) return altered;
  const { contract } = parseContract(found.text, found.file);
  for (const { name, piiAction } of contract === null ? [] : selectTable(contract, shape).columns)
    if (piiAction !== null && !altered.has(name)) put(name, piiAction === 'hash' ? 'hash:' : piiAction);
  return altered;
}

/** Without its key column no row can be told from another. */
function refuseLostKey(shape: TableShape, left: TableReport['left']): void {
  const lost = left.find(({ column }) =>
    shape.columns.some(({ name, keyPosition }) => name === column && keyPosition > 0),
  );
  if (lost === undefined) return;
  throw new ConfigError(
    `${shape.schema}.${shape.table} cannot be compared: its key column ${lost.column} is ${lost.reason}`,
    'set privacy.key to the key that the pipeline has',
  );
}

/** Parked events behind the log hold a key cell as the log has it: hashed there already, or to be hashed now. */
function keyHash(shape: TableShape, hasher: Hasher | null): KeyHash {
  const inLog = new Set(shape.columns.flatMap(({ name, replaced }) => (replaced === undefined ? [] : [name])));
  return (column, cell) => (inLog.has(column.name) || hasher === null ? cell : hasher(cell));
}
