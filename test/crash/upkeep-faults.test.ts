/**
 * Maintenance over a store that fails by a seed, in a process that dies at any call: checkpoints, log cleanup, VACUUM,
 * restore, beside appends and deletes. After every step, seen without faults: the newest version opens, all of its files
 * stand, and so does every version that a reader may still hold (younger than the retention).
 * SLUICE_TEST_RUNS sets the number of seeds, SLUICE_TEST_SEED the first.
 */
import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { NO_ACTIONS, newAdd, removeOf } from '../../lakehouse/table/actions.ts';
import { writeCheckpoint } from '../../lakehouse/table/checkpoint.ts';
import { commitTo } from '../../lakehouse/table/commit.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { TableError } from '../../lakehouse/table/table-error.ts';
import { cleanLog } from '../../lakehouse/upkeep/clean-log.ts';
import { restoreTable } from '../../lakehouse/upkeep/restore.ts';
import { vacuum } from '../../lakehouse/upkeep/vacuum.ts';
import { ProcessDied, createFaultStore } from '../../ops/faults/fault-store.ts';
import { seededRandom } from '../../ops/faults/seeded-random.ts';
import type { SeededRandom } from '../../ops/faults/seeded-random.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? '20');
const FIRST_SEED = Number(process.env['SLUICE_TEST_SEED'] ?? '1');
const STEPS = 30;
const DAY_MS = 86_400_000;
const RETENTION_MS = 2 * DAY_MS;

const schema = { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }] } as const;
const properties = {
  'delta.deletedFileRetentionDuration': 'interval 2 days',
  'delta.logRetentionDuration': 'interval 2 days',
};

interface World {
  readonly store: ObjectStore;
  readonly random: SeededRandom;
  readonly now: () => number;
  readonly backoff: {
    attemptsMax: number;
    baseMs: number;
    capMs: number;
    sleep: () => Promise<void>;
    random: () => number;
  };
}

function isSurvivable(error: unknown): boolean {
  if (error instanceof ProcessDied || error instanceof StoreError) return true;
  // A checkpoint read that fails for good names the checkpoint, and a version that is asked for may be gone.
  const codes = [
    'COMMIT_OUTCOME_UNKNOWN',
    'CHECKPOINT_UNREADABLE',
    'VERSION_NOT_FOUND',
    'DATA_FILE_MISSING',
    'LOG_HOLE',
  ];
  return error instanceof TableError && codes.includes(error.code);
}

async function step(world: World, name: string): Promise<void> {
  const { store, random, now, backoff } = world;
  const options = { now, backoff };
  const snapshot = await openSnapshot(store, { ...options, tombstones: true });
  const commit = (actions: object): Promise<unknown> =>
    commitTo(
      snapshot,
      { operation: { name: 'WRITE' }, actions: { ...NO_ACTIONS, ...actions } },
      async (same) => same,
      options,
    );
  switch (random.pick(['append', 'append', 'delete', 'checkpoint', 'clean', 'vacuum', 'restore'])) {
    case 'append': {
      await store.put(`${name}.parquet`, new Uint8Array(4));
      await commit({
        adds: [
          newAdd({
            path: `${name}.parquet`,
            partitionValues: {},
            size: 4n,
            modificationTime: 0n,
            dataChange: true,
            stats: null,
          }),
        ],
      });
      return;
    }
    case 'delete': {
      const files = [...snapshot.files];
      const file = files[random.integer(Math.max(files.length, 1))];
      if (file !== undefined) await commit({ removes: [removeOf(file, now(), true)] });
      return;
    }
    case 'checkpoint':
      await writeCheckpoint(snapshot, options);
      return;
    case 'clean':
      await cleanLog(store, options);
      return;
    case 'vacuum':
      await vacuum(store, options);
      return;
    case 'restore': {
      const back = BigInt(random.integer(3));
      if (snapshot.version > back) await restoreTable(store, snapshot.version - back, options);
    }
  }
}

async function assertWhole(disk: ObjectStore, snapshot: Snapshot, what: string): Promise<void> {
  for (const file of snapshot.files) expect(await disk.head(file.path), `${what}: ${file.path}`).not.toBeNull();
}

describe('maintenance over a failing store', () => {
  it(`harms nothing in ${RUNS} seeded runs`, { timeout: 1_800_000 }, async () => {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
      let nowMs = 1_700_000_000_000;
      const now = (): number => nowMs;
      const disk = createMemoryStore({ now });
      const random = seededRandom(seed);
      await createTable(disk, { schema, properties, now });
      const backoff = { attemptsMax: 3, baseMs: 0, capMs: 0, sleep: async () => {}, random: () => 0 };
      let newest = 0n;
      const seen: { readonly version: bigint; readonly atMs: number }[] = [];
      for (let at = 0; at < STEPS; at++) {
        nowMs += random.integer(DAY_MS);
        const faults = createFaultStore(disk, seed * 1_000 + at);
        await step({ store: faults.store, random, now, backoff }, `f${seed}-${at}`).catch((error: unknown) => {
          if (!isSurvivable(error)) throw error;
        });
        await faults.calm();
        const what = `seed ${seed}, step ${at}`;
        const snapshot = await openSnapshot(disk, { now });
        expect(snapshot.version, what).toBeGreaterThanOrEqual(newest);
        newest = snapshot.version;
        await assertWhole(disk, snapshot, what);
        if (seen.at(-1)?.version !== newest) seen.push({ version: newest, atMs: nowMs });
        // A version was the newest until its successor came: from then on the retention counts.
        for (const [index, { version }] of seen.entries()) {
          const endedMs = seen[index + 1]?.atMs ?? Infinity;
          if (endedMs > nowMs - RETENTION_MS)
            await assertWhole(disk, await openSnapshot(disk, { version, now }), `${what}, version ${version}`);
        }
      }
    }
  });
});
