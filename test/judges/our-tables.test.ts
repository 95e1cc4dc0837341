/** Tables that we write, read by DuckDB, delta-rs and Spark: values of every type, merges, change feeds, a shortened log. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openMergeTable, type MergeTableOptions } from '../../lakehouse/merge/merge-writer.ts';
import { MergeOp, type MergeTable } from '../../lakehouse/merge/merge.ts';
import { changesSchema, readChanges } from '../../lakehouse/read/changes.ts';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { writeCheckpoint } from '../../lakehouse/table/checkpoint.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import type { DeltaType, StructField, StructType } from '../../lakehouse/table/schema.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { fsck } from '../../lakehouse/upkeep/fsck.ts';
import { appendBatch } from '../../lakehouse/write/append-batch.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { columnFrom, type Cell } from '../support/column-from.ts';
import { requires } from '../support/requirements.ts';
import { changesWithDeltaRs, readWithDeltaRs, readWithDuckDb, withSpark } from './judge.ts';

const suite = await requires('judges of our tables', 'python');
const sparkSuite = await requires('Spark on our tables', 'python', 'spark');

const root = mkdtempSync(join(tmpdir(), 'sluice-judges-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const field = (name: string, type: DeltaType): StructField => ({ name, type, nullable: true, metadata: {} });
const struct = (...fields: StructField[]): StructType => ({ type: 'struct', fields });

async function ourRows(store: ObjectStore): Promise<string[]> {
  const snapshot = await openSnapshot(store);
  return canonicalRows(scanSchema(snapshot), scan(snapshot));
}

/** Every type, with the values that readers are known to get wrong. */
const TYPES: readonly [string, DeltaType, readonly Cell[]][] = [
  ['bool', 'boolean', [true, false, null]],
  ['tiny', 'byte', [-128, 127, null]],
  ['small', 'short', [-32_768, 32_767, null]],
  ['int', 'integer', [-2_147_483_648, 2_147_483_647, null]],
  ['long', 'long', [9_007_199_254_740_993n, -9_223_372_036_854_775_808n, null]],
  ['single', 'float', [0.1, Number.NaN, null]],
  ['double', 'double', [-0, Number.POSITIVE_INFINITY, null]],
  ['dec9', 'decimal(9,2)', [999_999_999n, -1n, null]],
  ['dec18', 'decimal(18,4)', [10n ** 18n - 1n, -5n, null]],
  ['dec38', 'decimal(38,18)', [10n ** 38n - 1n, -(10n ** 38n) + 1n, null]],
  ['text', 'string', ['', `${'\u{1F33C}'.repeat(40)}"\\\n`, null]],
  ['bytes', 'binary', [new Uint8Array([0, 255, 128]), new Uint8Array(0), null]],
  ['day', 'date', [-719_162, 2_932_896, null]],
  ['at', 'timestamp', [-62_135_596_800_000_000n, 253_402_300_799_999_999n, null]],
  ['local', 'timestamp_ntz', [1_080_758n, -1n, null]],
  ['list', { type: 'array', elementType: 'string', containsNull: true }, [['a', null, ''], [], null]],
  [
    'map',
    { type: 'map', keyType: 'string', valueType: 'long', valueContainsNull: true },
    [
      new Map<string, Cell>([
        ['k', 9_007_199_254_740_993n],
        ['n', null],
      ]),
      new Map(),
      null,
    ],
  ],
  [
    'nest',
    struct(field('x', 'decimal(20,2)'), field('y', { type: 'array', elementType: 'integer', containsNull: true })),
    [{ x: 1n, y: [1, null] }, { x: null, y: null }, null],
  ],
];

async function writeTypes(name: string): Promise<{ store: ObjectStore; path: string }> {
  const path = join(root, name);
  const store = createFileStore(path);
  const schema = struct(...TYPES.map(([column, type]) => field(column, type)));
  const table = await createTable(store, { schema });
  const columns = TYPES.map(([, type, cells]) => columnFrom(type, cells));
  await appendBatch(table, { rowCount: 3, names: TYPES.map(([column]) => column), columns });
  return { store, path };
}

/** A keyed table's rows in time: `at` counts the batches. */
const KEYED = struct(
  field('id', 'long'),
  field('region', 'string'),
  field('amount', 'decimal(12,2)'),
  field('note', 'string'),
);

interface Change {
  readonly id: bigint;
  /** Absent: a delete. */
  readonly region?: string;
  readonly amount?: bigint;
  readonly note?: string | null;
}

async function apply(table: MergeTable, lsn: bigint, changes: readonly Change[]): Promise<void> {
  const prepared = await table.prepare({
    rowCount: changes.length,
    schema: KEYED,
    columns: [
      columnFrom(
        'long',
        changes.map(({ id }) => id),
      ),
      columnFrom(
        'string',
        changes.map(({ region }) => region ?? null),
      ),
      columnFrom(
        'decimal(12,2)',
        changes.map(({ amount }) => amount ?? null),
      ),
      columnFrom(
        'string',
        changes.map(({ note }) => note ?? null),
      ),
    ],
    keyColumns: ['id'],
    ops: Uint8Array.from(changes, ({ region }) => (region === undefined ? MergeOp.delete : MergeOp.upsert)),
    absent: [null, null, null, null],
    epoch: new Int32Array(changes.length).fill(1),
    lsn: new BigUint64Array(changes.length).fill(lsn),
    ord: Int32Array.from(changes, (_, i) => i),
    truncate: null,
  });
  const txns = [{ appId: 'judge', version: lsn }];
  await table.commit(prepared, { txns, info: {}, timestampMs: 1_700_000_000_000 + Number(lsn) });
}

const upserts = (from: number, to: number, salt: number): Change[] =>
  Array.from({ length: to - from }, (_, i) => ({
    id: BigInt(from + i),
    region: ['north', 'a b/c%=:é', 'süd'][(from + i) % 3] ?? '',
    amount: BigInt((from + i) * 100 + salt),
    note: (from + i) % 5 === 0 ? null : `note ${from + i} of ${salt}`,
  }));

/** Inserts, updates that move partitions, deletes of single rows and of a whole file's last rows, re-inserts. */
async function writeMerged(
  name: string,
  create: MergeTableOptions['create'],
): Promise<{ store: ObjectStore; path: string }> {
  const path = join(root, name);
  const store = createFileStore(path);
  const table = await openMergeTable({
    store,
    indexDir: join(root, `${name}-index`),
    ...(create === undefined ? {} : { create }),
  });
  await apply(table, 1n, upserts(0, 500, 1));
  await apply(table, 2n, [...upserts(100, 200, 2), ...upserts(500, 550, 2)]);
  await apply(
    table,
    3n,
    Array.from({ length: 60 }, (_, i) => ({ id: BigInt(i * 3) })),
  );
  await apply(table, 4n, [{ id: 7n, region: 'north', amount: -1n, note: '' }, ...upserts(0, 5, 4)]);
  await apply(
    table,
    5n,
    Array.from({ length: 50 }, (_, i) => ({ id: BigInt(500 + i) })),
  );
  await table.close();
  return { store, path };
}

const SHAPES: Readonly<Record<string, MergeTableOptions['create']>> = {
  'with deletion vectors': {},
  'with a change feed': { changeDataFeed: true },
  partitioned: { partitionColumns: ['region'], changeDataFeed: true },
  'copy-on-write': { deletionVectors: false, changeDataFeed: true },
  'with column mapping': { columnMapping: true },
  'with in-commit timestamps': { inCommitTimestamps: true },
};

suite('DuckDB and delta-rs on our tables', () => {
  beforeAll(async () => {
    // Fetching the judge takes longer than one test may.
    await readWithDeltaRs((await writeTypes('warm-up')).path);
  });

  it('read every type as we do', async () => {
    const { store, path } = await writeTypes('types');
    const ours = await ourRows(store);
    expect(ours.length).toBe(3);
    expect(await readWithDuckDb(path)).toEqual(ours);
    expect(await readWithDeltaRs(path)).toEqual(ours);
  });

  for (const [shape, create] of Object.entries(SHAPES)) {
    it(`read a merged table ${shape} as we do, also when only the checkpoint is left of its beginning`, async () => {
      const { store, path } = await writeMerged(`merged ${shape}`.replaceAll(' ', '-'), create);
      const ours = await ourRows(store);
      expect(ours.length).toBe(500 - 60 + 2);
      expect(await readWithDuckDb(path)).toEqual(ours);
      expect(await readWithDeltaRs(path)).toEqual(ours);
      expect((await fsck(store, { deep: true })).findings).toEqual([]);
      const snapshot = await openSnapshot(store);
      if (create?.changeDataFeed === true) {
        const last = Number(snapshot.version);
        const changes = await canonicalRows(changesSchema(snapshot), readChanges(store, { from: 1n }));
        expect(comparable(changes)).toEqual(comparable(await changesWithDeltaRs(path, { from: 1, to: last })));
      }
      await writeCheckpoint(snapshot);
      for (let version = 0n; version < snapshot.version; version++)
        await store.delete([`_delta_log/${version.toString().padStart(20, '0')}.json`]);
      expect(await ourRows(store)).toEqual(ours);
      expect(await readWithDuckDb(path)).toEqual(ours);
      expect(await readWithDeltaRs(path)).toEqual(ours);
    });
  }
});

/** Without the commit time, columns in one order: delta-rs takes the file's time and puts partition columns last. */
function comparable(rows: readonly string[]): string[] {
  return rows
    .map((row) => {
      const members = Object.entries(JSON.parse(row) as Record<string, unknown>);
      const kept = members.filter(([column]) => column !== '_commit_timestamp');
      return JSON.stringify(Object.fromEntries(kept.toSorted(([a], [b]) => (a < b ? -1 : 1))));
    })
    .sort();
}

sparkSuite('Spark on our tables', () => {
  it('reads every type and every shape as we do', async () => {
    const tables = [await writeTypes('spark-types')];
    for (const [shape, create] of Object.entries(SHAPES))
      tables.push(await writeMerged(`spark ${shape}`.replaceAll(' ', '-'), create));
    const judged = await withSpark(tables.map(({ path }) => `SELECT * FROM delta.\`${path}\``));
    for (const [i, { store }] of tables.entries()) expect(judged[i]).toEqual(await ourRows(store));
  });

  it('deletes, optimizes and checkpoints, after which we read and merge on', async () => {
    const { store, path } = await writeMerged('spark-writes', { changeDataFeed: true });
    const before = await ourRows(store);
    const table = `delta.\`${path}\``;
    const statements = [
      `DELETE FROM ${table} WHERE id % 7 = 3`,
      `UPDATE ${table} SET note = concat('by spark ', id) WHERE id BETWEEN 300 AND 320`,
      `OPTIMIZE ${table}`,
      `ALTER TABLE ${table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')`,
      `INSERT INTO ${table} SELECT 9000 AS id, 'north' AS region, 1.5 AS amount, NULL AS note, 99L AS _sluice_lsn, 0 AS _sluice_ord, 1 AS _sluice_epoch`,
      `SELECT * FROM ${table}`,
    ];
    const afterSpark = (await withSpark(statements)).at(-1);
    expect(await ourRows(store)).toEqual(afterSpark);
    expect(afterSpark).not.toEqual(before);
    const snapshot = await openSnapshot(store);
    const changes = await canonicalRows(changesSchema(snapshot), readChanges(store, { from: 6n }));
    expect(changes.filter((row) => row.includes('"_change_type":"delete"')).length).toBeGreaterThan(50);
    // Spark's checkpoint alone is enough to read on.
    expect(snapshot.checkpointVersion).toBe(snapshot.version);
    for (let version = 0n; version < snapshot.version; version++)
      await store.delete([`_delta_log/${version.toString().padStart(20, '0')}.json`]);
    expect(await ourRows(store)).toEqual(afterSpark);
    // The index follows Spark's commits: a file that it rewrote, rows that it deleted and added.
    const merge = await openMergeTable({ store, indexDir: join(root, 'spark-writes-index') });
    await apply(merge, 200n, [...upserts(300, 310, 9), { id: 9000n }, { id: 311n }]);
    await merge.close();
    const ours = await ourRows(store);
    expect(
      ours
        .filter((row) => /"id":(30\d),/.test(row))
        .every((row) => row.includes('of 9"') || row.includes('"note":null')),
    ).toBe(true);
    expect(ours.some((row) => row.includes('"id":9000,') || row.includes('"id":311,'))).toBe(false);
    expect((await withSpark([`SELECT * FROM ${table}`]))[0]).toEqual(ours);
    expect((await fsck(store, { deep: true })).findings).toEqual([]);
  });
});
