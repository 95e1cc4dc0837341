import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { NO_ACTIONS, newAdd } from './actions.ts';
import { serializeCommit } from './action-json.ts';
import { writeCheckpoint } from './checkpoint.ts';
import { createTable } from './create.ts';
import { commitKey } from './log-files.ts';
import { openSnapshot, refreshSnapshot } from './snapshot.ts';

const COMMITS = 10_000;
const SINCE_CHECKPOINT = 60;

/** Counts what a store is asked for. */
function counting(inner: ObjectStore): {
  readonly store: ObjectStore;
  readonly asked: { gets: number; listed: number };
} {
  const asked = { gets: 0, listed: 0 };
  const store: ObjectStore = {
    ...inner,
    get: (key, range) => {
      asked.gets++;
      return inner.get(key, range);
    },
    async *list(prefix, options) {
      for await (const meta of inner.list(prefix, options)) {
        asked.listed++;
        yield meta;
      }
    },
  };
  return { store, asked };
}

describe('opening a table of 10,000 commits', () => {
  it('reads the newest checkpoint and what came after it, whatever lies before', { timeout: 60_000 }, async () => {
    const disk = createMemoryStore();
    await createTable(disk, {
      schema: { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }] },
    });
    for (let version = 1; version <= COMMITS; version++) {
      const add = newAdd({
        path: `f${version}`,
        partitionValues: {},
        size: 1n,
        modificationTime: 0n,
        dataChange: true,
        stats: '{"numRecords":1}',
      });
      await disk.put(
        commitKey(BigInt(version)),
        serializeCommit({ ...NO_ACTIONS, commitInfo: { txnId: `t${version}` }, adds: [add] }),
      );
    }
    await writeCheckpoint(await openSnapshot(disk, { version: BigInt(COMMITS - SINCE_CHECKPOINT) }));

    const { store, asked } = counting(disk);
    const snapshot = await openSnapshot(store);
    expect(snapshot.version).toBe(BigInt(COMMITS));
    expect(snapshot.files.count).toBe(COMMITS);
    // The pointer, the commits, and the checkpoint's footer and columns in a few ranges.
    expect(asked.gets).toBeLessThan(SINCE_CHECKPOINT + 20);
    expect(asked.listed).toBeLessThan(SINCE_CHECKPOINT + 5);

    asked.gets = 0;
    asked.listed = 0;
    expect(await refreshSnapshot(snapshot)).toBe(snapshot);
    expect(asked).toEqual({ gets: 1, listed: 0 });
  });
});
