/**
 * Writers and a checkpointer over a store that fails by a seed, processes that die at any call, clocks that jump. After
 * each run: every version opens, every acknowledged batch is in the table exactly once, and no batch is there by half.
 * SLUICE_TEST_RUNS sets the number of seeds (2,000 in the nightly run), SLUICE_TEST_SEED the first.
 */
import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { withRetry, isRetriableRead } from '../../lakehouse/store/retry.ts';
import { NO_ACTIONS, newAdd } from '../../lakehouse/table/actions.ts';
import { writeCheckpoint } from '../../lakehouse/table/checkpoint.ts';
import { commitTo } from '../../lakehouse/table/commit.ts';
import type { Proposal } from '../../lakehouse/table/commit.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import { readCommit } from '../../lakehouse/table/log-reader.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { TableError } from '../../lakehouse/table/table-error.ts';
import { EVERY_FAULT, ProcessDied, createFaultStore } from '../../ops/faults/fault-store.ts';
import type { FaultKind } from '../../ops/faults/fault-store.ts';
import { jumpyClock } from '../../ops/faults/jumpy-clock.ts';
import { seededRandom } from '../../ops/faults/seeded-random.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? '200');
const FIRST_SEED = Number(process.env['SLUICE_TEST_SEED'] ?? '1');
const WRITERS = 2;
const BATCHES = 4;
const FILES_A_BATCH = 2;
/** Restarts of a writer before a run counts as stuck. */
const RESTARTS_MAX = 200;
const START_MS = 1_700_000_000_000;

const schema = { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }] } as const;

/** Failures that a supervisor answers by starting the writer again. */
function isSurvivable(error: unknown): boolean {
  if (error instanceof ProcessDied || error instanceof StoreError) return true;
  return (
    error instanceof TableError &&
    ['COMMIT_OUTCOME_UNKNOWN', 'COMMIT_CONTENTION', 'CHECKPOINT_UNREADABLE'].includes(error.code)
  );
}

interface Run {
  readonly store: ObjectStore;
  readonly random: () => number;
  readonly now: () => number;
  readonly acknowledged: Set<string>;
}

/** Commits the batches that the table does not have yet, until one fails. */
async function writeBatches(run: Run, writer: number, attempt: number): Promise<void> {
  const backoff = { attemptsMax: 4, baseMs: 0, capMs: 0, sleep: async () => {}, random: run.random };
  const { store, now } = run;
  const appId = `writer-${writer}`;
  let snapshot = await openSnapshot(store, { backoff, now });
  for (;;) {
    const batch = Number(snapshot.txns.get(appId)?.version ?? -1n) + 1;
    if (batch >= BATCHES) return;
    const files = Array.from({ length: FILES_A_BATCH }, (_, at) => `${appId}-${batch}-${attempt}-${at}.parquet`);
    for (const file of files) await withRetry(() => store.put(file, new Uint8Array(3)), isRetriableRead, backoff);
    const proposal: Proposal = {
      operation: { name: 'WRITE', isBlindAppend: true },
      actions: {
        ...NO_ACTIONS,
        txns: [{ appId, version: BigInt(batch), lastUpdated: BigInt(START_MS) }],
        adds: files.map((path) =>
          newAdd({ path, partitionValues: {}, size: 3n, modificationTime: 0n, dataChange: true, stats: null }),
        ),
      },
    };
    const result = await commitTo(
      snapshot,
      proposal,
      async (same, newest) => ((newest.txns.get(appId)?.version ?? -1n) >= BigInt(batch) ? null : same),
      { backoff, now },
    );
    run.acknowledged.add(`${appId}-${batch}`);
    snapshot = result.snapshot;
    if (run.random() < 0.3) await writeCheckpoint(snapshot, { backoff, now });
  }
}

async function runSeed(seed: number, totals: Map<FaultKind, number>): Promise<void> {
  const disk = createMemoryStore();
  await createTable(disk, { schema, now: () => START_MS });
  const acknowledged = new Set<string>();
  const random = seededRandom(seed * 7 + 3);
  const faults = createFaultStore(disk, seed, { ...EVERY_FAULT, 'credentials-expired': 0.01 });
  const writers = Array.from({ length: WRITERS }, async (_, writer) => {
    for (let attempt = 0; attempt < RESTARTS_MAX; attempt++) {
      const now = jumpyClock(seed * 31 + writer * 7 + attempt, START_MS);
      try {
        await writeBatches({ store: faults.store, random: random.next, now, acknowledged }, writer, attempt);
        return;
      } catch (error) {
        if (!isSurvivable(error)) throw error;
      }
    }
    throw new Error(`seed ${seed}: writer ${writer} never came through`);
  });
  await Promise.all(writers);
  await faults.calm();
  for (const [kind, count] of faults.struck) totals.set(kind, (totals.get(kind) ?? 0) + count);
  await checkTable(disk, acknowledged, seed);
}

async function checkTable(disk: ObjectStore, acknowledged: ReadonlySet<string>, seed: number): Promise<void> {
  const newest = await openSnapshot(disk);
  const batches = new Map<string, number>();
  for (let version = 1n; version <= newest.version; version++) {
    const commit = await readCommit(disk, version);
    expect(commit, `seed ${seed}: version ${version}`).not.toBeNull();
    expect(commit?.adds).toHaveLength(FILES_A_BATCH);
    const [txn] = commit?.txns ?? [];
    const name = `${txn?.appId}-${txn?.version}`;
    batches.set(name, (batches.get(name) ?? 0) + 1);
    for (const add of commit?.adds ?? []) {
      expect(add.path.startsWith(`${name}-`)).toBe(true);
      expect(await disk.head(add.path), `seed ${seed}: ${add.path}`).not.toBeNull();
    }
    expect((await openSnapshot(disk, { version })).files.count).toBe(Number(version) * FILES_A_BATCH);
  }
  const all = Array.from(
    { length: WRITERS * BATCHES },
    (_, at) => `writer-${Math.floor(at / BATCHES)}-${at % BATCHES}`,
  );
  expect(Object.fromEntries(batches), `seed ${seed}`).toEqual(Object.fromEntries(all.map((name) => [name, 1])));
  for (const name of acknowledged) expect(batches.get(name), `seed ${seed}: ${name}`).toBe(1);
  expect(newest.files.count).toBe(all.length * FILES_A_BATCH);
}

describe('commits over a failing store', () => {
  it(`lose and double nothing in ${RUNS} seeded runs`, { timeout: 1_800_000 }, async () => {
    const totals = new Map<FaultKind, number>();
    for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) await runSeed(seed, totals);
    // Every fault did strike, or the runs prove less than they say.
    if (RUNS >= 100) expect(totals.size).toBe(13);
  });
});
