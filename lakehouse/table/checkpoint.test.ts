import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { NO_ACTIONS, newAdd, removeOf } from './actions.ts';
import type { AddFile, CommitActions } from './actions.ts';
import { writeCheckpoint } from './checkpoint.ts';
import { commitTo } from './commit.ts';
import { createTable } from './create.ts';
import { LAST_CHECKPOINT, checkpointKey, commitKey } from './log-files.ts';
import type { StructType } from './schema.ts';
import { openSnapshot } from './snapshot.ts';
import type { Snapshot } from './snapshot.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? '15');
const NOW = 1_700_000_000_000;
const SCHEMA: StructType = {
  type: 'struct',
  fields: [
    { name: 'id', type: 'long', nullable: true, metadata: {} },
    { name: 'p', type: 'string', nullable: true, metadata: { comment: 'ключ "quoted"' } },
  ],
};

function comparable(snapshot: Snapshot): object {
  const byPath = (a: { path: string }, b: { path: string }): number => (a.path < b.path ? -1 : 1);
  return {
    version: snapshot.version,
    protocol: snapshot.protocol,
    metadata: snapshot.metadata,
    // dataChange tells of a change; in state it means nothing, and checkpoints hold false.
    files: [...snapshot.files].map((add) => ({ ...add, dataChange: false })).sort(byPath),
    count: snapshot.files.count,
    sizeBytes: snapshot.files.sizeBytes,
    txns: [...snapshot.txns.values()].sort((a, b) => (a.appId < b.appId ? -1 : 1)),
    domains: [...snapshot.domains.values()],
    tombstones: [...(snapshot.tombstones?.values() ?? [])]
      .map((remove) => ({ ...remove, dataChange: false, tags: null }))
      .sort(byPath),
  };
}

/** The same store without its checkpoints and pointer: only a full replay opens it. */
function commitsOnly(store: ObjectStore): ObjectStore {
  return {
    ...store,
    get: (key, range) => store.get(key === LAST_CHECKPOINT ? 'absent' : key, range),
    async *list(prefix, options) {
      for await (const meta of store.list(prefix, options)) if (!meta.key.includes('.checkpoint.')) yield meta;
    },
  };
}

const text = fc.string({ unit: 'binary', maxLength: 12 }).map((value) => value.replaceAll('\0', ''));
const partition = fc.oneof(fc.constant(null), text);
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

/** Steps on ten paths: add it, put a vector on it, remove it, commit a transaction, checkpoint. */
const step = fc.record({
  path: fc.integer({ min: 0, max: 9 }),
  kind: fc.constantFrom('add', 'vector', 'remove', 'txn', 'checkpoint'),
  value: int64,
  p: partition,
  stats: fc.oneof(fc.constant(null), fc.constant('{"numRecords":12345678901234567890,"maxValues":{"d":1.50}}'), text),
  tags: fc.oneof(fc.constant(null), fc.dictionary(text, partition, { maxKeys: 2 })),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function act(snapshot: Snapshot, { path, kind, value, p, stats, tags }: Step): Partial<CommitActions> | null {
  const name = `part-${path}.parquet`;
  const live = snapshot.files.get(name);
  switch (kind) {
    case 'add': {
      const add: AddFile = newAdd({
        path: name,
        partitionValues: { p },
        size: value < 0n ? -(value + 1n) : value,
        modificationTime: value,
        dataChange: true,
        stats,
        tags,
        baseRowId: value,
        defaultRowCommitVersion: 3n,
        clusteringProvider: 'x',
      });
      return live === null ? { adds: [add] } : null;
    }
    case 'vector':
      if (live === null) return null;
      return {
        removes: [removeOf(live, NOW, true)],
        adds: [
          {
            ...live,
            deletionVector: {
              storageType: 'u',
              pathOrInlineDv: `dv${value}`,
              offset: 1,
              sizeInBytes: 40,
              cardinality: 7n,
            },
          },
        ],
      };
    case 'remove':
      return live === null ? null : { removes: [removeOf(live, NOW - Number(value % 20n) * 86_400_000, true)] };
    case 'txn':
      return { txns: [{ appId: `app-${path % 3}`, version: value, lastUpdated: value > 0n ? BigInt(NOW) : null }] };
    case 'checkpoint':
      return null;
  }
}

describe('checkpoints', () => {
  it('hold just the state that a full replay gives', { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const store = createMemoryStore();
        const now = (): number => NOW;
        let snapshot = await createTable(store, { schema: SCHEMA, partitionColumns: ['p'], now });
        for (const one of steps) {
          const actions = act(snapshot, one);
          if (actions !== null) {
            const proposal = { operation: { name: 'WRITE' }, actions: { ...NO_ACTIONS, ...actions } };
            snapshot = (await commitTo(snapshot, proposal, async () => null, { now })).snapshot;
          } else if (one.kind === 'checkpoint') {
            await writeCheckpoint(snapshot, { now });
          }
        }
        await writeCheckpoint(snapshot, { now });
        const read = await openSnapshot(store, { tombstones: true, now });
        const replayed = await openSnapshot(commitsOnly(store), { tombstones: true, now });
        expect(read.checkpointVersion).toBe(snapshot.version);
        expect(replayed.checkpointVersion).toBeNull();
        const unexpired = [...(replayed.tombstones ?? [])].filter(
          ([, { deletionTimestamp }]) => (deletionTimestamp ?? 0n) >= BigInt(NOW - 7 * 86_400_000),
        );
        expect(comparable(read)).toEqual(comparable({ ...replayed, tombstones: new Map(unexpired) }));
        expect(comparable({ ...snapshot, tombstones: null })).toEqual(comparable({ ...read, tombstones: null }));
      }),
      { numRuns: RUNS },
    );
  });

  it('open a table whatever the pointer says', async () => {
    const store = createMemoryStore();
    let snapshot = await createTable(store, { schema: SCHEMA, partitionColumns: ['p'] });
    for (let at = 0; at < 6; at++) {
      const add = newAdd({
        path: `f${at}`,
        partitionValues: { p: null },
        size: 1n,
        modificationTime: 0n,
        dataChange: true,
        stats: null,
      });
      snapshot = (
        await commitTo(
          snapshot,
          { operation: { name: 'WRITE' }, actions: { ...NO_ACTIONS, adds: [add] } },
          async () => null,
        )
      ).snapshot;
      if (at === 1 || at === 3) await writeCheckpoint(snapshot);
    }
    const pointer = await store.get(LAST_CHECKPOINT);
    expect(JSON.parse(new TextDecoder().decode(pointer))).toMatchObject({ version: 4, size: 6, numOfAddFiles: 4 });
    const broken = [
      '',
      '{"version":',
      '{"version":99}',
      '{"version":-1}',
      '{"version":"4"}',
      '[]',
      '{"version":3}',
      '{"version":2,"parts":7}',
    ];
    for (const body of broken) {
      await store.put(LAST_CHECKPOINT, new TextEncoder().encode(body));
      expect((await openSnapshot(store)).files.count, body).toBe(6);
    }
    await store.put(LAST_CHECKPOINT, pointer);
    const newest = await store.get(checkpointKey(4n));
    for (const damaged of [newest.slice(0, newest.length / 2), new Uint8Array(0), new Uint8Array(newest.length)]) {
      await store.put(checkpointKey(4n), damaged);
      const read = await openSnapshot(store);
      expect(read.files.count).toBe(6);
      expect(read.checkpointVersion).toBe(2n);
    }
    await store.delete([commitKey(0n), commitKey(1n), commitKey(2n), commitKey(3n), checkpointKey(2n)]);
    await expect(openSnapshot(store)).rejects.toMatchObject({ code: 'CHECKPOINT_UNREADABLE', place: { version: 4n } });
    await store.put(checkpointKey(4n), newest);
    expect((await openSnapshot(store)).files.count).toBe(6);
    await expect(openSnapshot(store, { version: 2n })).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
  });
});
