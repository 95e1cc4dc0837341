import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MERGE_FAILPOINTS, type MergeFailpoint } from '../../lakehouse/merge/failpoint.ts';
import type { MergeMode } from '../../lakehouse/merge/merge.ts';
import { openMergeTable, type OwnedMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import { changesSchema, readChanges } from '../../lakehouse/read/changes.ts';
import { scan } from '../../lakehouse/read/scan.ts';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { compactTable, type CompactOptions } from '../../lakehouse/upkeep/compact.ts';
import type { StructField } from '../../lakehouse/table/schema.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import type { Cell } from '../support/column-from.ts';
import {
  appendToModel,
  applyToModel,
  keyOf,
  newModel,
  rowText,
  toMergeBatch,
  type AppendedRow,
  type ModelBatch,
  type ModelEvent,
  type Position,
} from './merge-model.ts';

/** Ten thousand sequences: SLUICE_TEST_RUNS=2000 (each of the six layouts runs that many). */
const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? 15);

class Crash extends Error {}

/** A process's view of the store: after its crash nothing of it gets through any more. */
function mortalStore(inner: ObjectStore): { store: ObjectStore; crashAtWrite(n: number): void; kill(): void } {
  let left = Infinity;
  let dead = false;
  const alive = (): void => {
    if (dead) throw new Crash('the process is dead');
  };
  const write = async <T>(work: () => Promise<T>): Promise<T> => {
    alive();
    if (--left < 0) {
      dead = true;
      throw new Crash('crashed before a write');
    }
    return work();
  };
  return {
    crashAtWrite: (n) => (left = n),
    kill: () => (dead = true),
    store: {
      uri: inner.uri,
      get: async (key, range) => (alive(), inner.get(key, range)),
      head: async (key) => (alive(), inner.head(key)),
      list: (prefix, options) => (alive(), inner.list(prefix, options)),
      put: (key, body) => write(() => inner.put(key, body)),
      putIfAbsent: (key, body) => write(() => inner.putIfAbsent(key, body)),
      delete: (keys) => write(() => inner.delete(keys)),
      close: async () => {},
    },
  };
}

const FIELDS: readonly StructField[] = [
  { name: 'n', type: 'integer', nullable: true, metadata: {} },
  { name: 'part', type: 'string', nullable: true, metadata: {} },
  { name: 'body', type: 'string', nullable: true, metadata: {} },
  { name: 'extra', type: 'long', nullable: true, metadata: {} },
];

interface Layout {
  readonly name: string;
  readonly mode: MergeMode;
  readonly deletionVectors: boolean;
  readonly changeDataFeed: boolean;
  readonly partitionColumns: readonly string[];
}
const LAYOUTS: readonly Layout[] = [
  { name: 'vectors', mode: 'merge', deletionVectors: true, changeDataFeed: false, partitionColumns: [] },
  {
    name: 'vectors, change feed, partitions',
    mode: 'merge',
    deletionVectors: true,
    changeDataFeed: true,
    partitionColumns: ['part'],
  },
  {
    name: 'copy on write, change feed',
    mode: 'merge',
    deletionVectors: false,
    changeDataFeed: true,
    partitionColumns: [],
  },
  { name: 'soft delete', mode: 'soft-delete', deletionVectors: true, changeDataFeed: true, partitionColumns: [] },
  {
    name: 'soft delete, copy on write, partitions',
    mode: 'soft-delete',
    deletionVectors: false,
    changeDataFeed: false,
    partitionColumns: ['part'],
  },
  { name: 'append only', mode: 'append', deletionVectors: true, changeDataFeed: false, partitionColumns: ['part'] },
];

const cellsOf = fc.record({
  n: fc.option(fc.integer({ min: -9, max: 9 }), { nil: null }),
  part: fc.constantFrom('x', 'y/z %', null),
  body: fc.oneof(fc.constant(undefined), fc.constant(null), fc.string({ maxLength: 12 }), fc.constant('é'.repeat(40))),
  extra: fc.oneof(fc.constant(undefined), fc.bigInt({ min: -5n, max: 5n })),
});
const eventOf = fc.record({
  tenant: fc.constantFrom('a', 'b'),
  id: fc.integer({ min: 0, max: 11 }),
  delete: fc.boolean().map((yes) => yes),
  /** How far behind the newest position: mostly not at all. */
  behind: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 40 }) }),
  cells: cellsOf,
});
const stepOf = fc.record({
  events: fc.array(eventOf, { maxLength: 14 }),
  truncateBehind: fc.oneof(
    { weight: 9, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 30 }) },
  ),
  withExtra: fc.boolean(),
  newEpoch: fc.oneof({ weight: 14, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  crashAtWrite: fc.oneof(
    { weight: 3, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 6 }) },
  ),
  crashAt: fc.oneof(
    { weight: 6, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constantFrom(...MERGE_FAILPOINTS) },
  ),
  compact: fc.oneof(
    { weight: 5, arbitrary: fc.constant('no' as const) },
    { weight: 2, arbitrary: fc.constantFrom('own' as const, 'foreign' as const, 'racing' as const) },
  ),
  ordered: fc.boolean(),
  reopen: fc.oneof(
    { weight: 6, arbitrary: fc.constant('no' as const) },
    { weight: 1, arbitrary: fc.constantFrom('same' as const, 'lost' as const) },
  ),
});
type Step = typeof stepOf extends fc.Arbitrary<infer T> ? T : never;

function batchOf(step: Step, clock: { epoch: number; lsn: number }, added: boolean): ModelBatch {
  clock.lsn += 10;
  const fields = added ? FIELDS : FIELDS.slice(0, 3);
  const at = (behind: number, ord: number): Position => ({
    epoch: clock.epoch,
    lsn: BigInt(Math.max(1, clock.lsn - behind)),
    ord,
  });
  const seen = new Set<string>();
  const events: ModelEvent[] = [];
  step.events.forEach((raw, i) => {
    const event = {
      tenant: raw.tenant,
      id: BigInt(raw.id),
      delete: raw.delete,
      position: at(raw.behind, i * 2),
      cells: raw.cells as Record<string, Cell | undefined>,
    };
    if (!seen.has(keyOf(event))) events.push(event);
    seen.add(keyOf(event));
  });
  const truncate = step.truncateBehind === null ? null : at(step.truncateBehind, 1);
  return { events, truncate, fields };
}

interface Process {
  readonly table: OwnedMergeTable;
  readonly mortal: ReturnType<typeof mortalStore>;
  failAt: MergeFailpoint | null;
}

async function start(store: ObjectStore, indexDir: string, layout: Layout): Promise<Process> {
  const mortal = mortalStore(store);
  const process: { failAt: MergeFailpoint | null } = { failAt: null };
  const table = await openMergeTable({
    store: mortal.store,
    indexDir,
    mode: layout.mode,
    create: {
      deletionVectors: layout.deletionVectors,
      changeDataFeed: layout.changeDataFeed,
      partitionColumns: layout.partitionColumns,
    },
    fileRowsMax: 7,
    // Some two rows of these files: what lacks columns is written in slices.
    storedBytesMax: 600,
    indexMemoryEntries: 12,
    checkpointEvery: 5,
    failpoint: (name) => {
      if (name !== process.failAt) return;
      mortal.kill();
      throw new Crash(name);
    },
  });
  return Object.assign(process, { table, mortal });
}

async function rowsOf(store: ObjectStore): Promise<{ rows: string[]; names: string[] }> {
  const snapshot = await openSnapshot(store);
  return {
    rows: await canonicalRows(snapshot.schema, scan(snapshot)),
    names: snapshot.schema.fields.map((field) => field.name),
  };
}

async function run(layout: Layout, steps: readonly Step[]): Promise<void> {
  const store = createMemoryStore();
  const root = mkdtempSync(join(tmpdir(), 'sluice-model-'));
  let indexDir = join(root, '0');
  let process = await start(store, indexDir, layout);
  const started = [process];
  const model = newModel();
  const appended: AppendedRow[] = [];
  const clock = { epoch: 1, lsn: 100 };
  let lost = 0;
  let added = false;
  const again = async (forget: boolean): Promise<void> => {
    if (forget) indexDir = join(root, String(++lost));
    process = await start(store, indexDir, layout);
    started.push(process);
  };
  try {
    for (const [i, step] of steps.entries()) {
      if (step.newEpoch) Object.assign(clock, { epoch: clock.epoch + 1, lsn: 100 });
      added ||= step.withExtra && i > 2;
      const batch = batchOf(step, clock, added);
      const wanted =
        layout.mode === 'append' ? appendToModel(appended, batch) : applyToModel(model, batch, layout.mode);
      if (step.crashAtWrite !== null) process.mortal.crashAtWrite(step.crashAtWrite);
      process.failAt = step.crashAt;
      const commit = async (): Promise<void> => {
        if (((await process.table.txnVersion('stream')) ?? -1n) >= BigInt(i)) return;
        const prepared = await process.table.prepare(toMergeBatch(batch));
        expect([...prepared.outcomes]).toEqual(wanted);
        const done = await process.table.commit(prepared, {
          txns: [{ appId: 'stream', version: BigInt(i) }],
          info: {},
          timestampMs: 1_700_000_000_000 + i,
        });
        expect([...done.outcomes]).toEqual(wanted);
      };
      const request: CompactOptions = {
        fileRowsMax: 20,
        plan: { targetBytes: 20_000 },
        ...(step.ordered ? { order: { kind: 'z-order' as const, columns: ['id', 'tenant'] } } : {}),
      };
      const compact = async (): Promise<void> => {
        if (step.compact === 'foreign') await compactTable(await openSnapshot(store), request);
        else if (i > 0) await process.table.optimize(request);
      };
      const survive = async (work: Promise<void>): Promise<boolean> => {
        try {
          await work;
          return true;
        } catch (error) {
          if (!isCrash(error)) throw error;
          return false;
        }
      };
      if (step.compact === 'own' || (step.compact === 'foreign' && i > 0))
        if (!(await survive(compact()))) await again(step.reopen === 'lost');
      const racing = step.compact === 'racing' ? survive(compact()) : Promise.resolve(true);
      if (!(await survive(commit()))) {
        await racing;
        await again(step.reopen === 'lost');
        await commit();
      }
      if (!(await racing)) await again(step.reopen === 'lost');
      if (step.reopen === 'same') {
        await process.table.close().catch((error: unknown) => {
          if (!isCrash(error)) throw error;
        });
      }
      if (step.reopen !== 'no') await again(step.reopen === 'lost');
      const { rows, names } = await rowsOf(store);
      const standing = layout.mode === 'append' ? appended : [...model.rows.values()];
      expect(rows).toEqual(standing.map((row) => rowText(row, names)).sort());
    }
    if (layout.changeDataFeed) await expectChangesAddUp(store);
  } finally {
    // Processes that died go on writing their caches in this one; they are brought to an end before the folder goes.
    for (const { mortal } of started) mortal.kill();
    for (const { table } of started) await table.close().catch(() => undefined);
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
}

function isCrash(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (at instanceof Crash) return true;
  return false;
}

/** The rows that all changes since the beginning leave behind are the table's rows. */
async function expectChangesAddUp(store: ObjectStore): Promise<void> {
  const snapshot = await openSnapshot(store);
  const left = new Map<string, number>();
  const versions = new Map<unknown, Map<string, number>>();
  const names = snapshot.schema.fields.map((field) => field.name);
  for await (const batch of readChanges(store, { from: 0n })) {
    for (const text of await canonicalRows(changesSchema(snapshot), [batch])) {
      const row = JSON.parse(text) as Record<string, unknown>;
      const key = JSON.stringify(Object.fromEntries(names.map((name) => [name, row[name] ?? null])));
      const sign = ['insert', 'update_postimage'].includes(String(row['_change_type'])) ? 1 : -1;
      left.set(key, (left.get(key) ?? 0) + sign);
      // A row that a version both takes and gives did not change: only a copy of it was made.
      const version = versions.get(row['_commit_version']) ?? new Map<string, number>();
      versions.set(row['_commit_version'], version);
      expect(version.get(key) ?? sign).toBe(sign);
      version.set(key, sign);
    }
  }
  const rows = [...left].filter(([, count]) => count !== 0);
  expect(rows.every(([, count]) => count === 1)).toBe(true);
  const { rows: wanted } = await rowsOf(store);
  expect(rows.map(([text]) => text).sort()).toEqual(wanted);
}

test.each(LAYOUTS)(
  'random sequences leave what the model says ($name)',
  async (layout) => {
    await fc.assert(
      fc.asyncProperty(fc.array(stepOf, { minLength: 1, maxLength: 14 }), (steps) => run(layout, steps)),
      { numRuns: RUNS },
    );
  },
  3_600_000,
);
