import { describe, expect, it } from 'vitest';
import { encodeParquet } from '../parquet/encode.ts';
import { createMemoryStore } from '../store/memory-store.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import { NO_ACTIONS, newAdd, removeOf } from '../table/actions.ts';
import type { AddFile, CommitActions } from '../table/actions.ts';
import { writeCheckpoint } from '../table/checkpoint.ts';
import { buildColumn } from '../table/column-build.ts';
import { commitTo } from '../table/commit.ts';
import { createTable } from '../table/create.ts';
import { deletionVectorKey, encodeDeletionVectors } from '../table/deletion-vector.ts';
import { readCommit } from '../table/log-reader.ts';
import { openSnapshotAt, readHistory, versionAt } from '../table/history.ts';
import { checkpointKey, commitKey } from '../table/log-files.ts';
import type { StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { collectStats } from '../table/stats.ts';
import { cleanLog } from './clean-log.ts';
import { compareBounds } from './check-bounds.ts';
import { fsck } from './fsck.ts';
import { restoreTable } from './restore.ts';
import { checkpointIfDue, isCheckpointDue } from './schedule-checkpoint.ts';
import { createUpkeep } from './upkeep.ts';
import { kindOf, vacuum } from './vacuum.ts';

const DAY = 86_400_000;
const SCHEMA: StructType = { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }] };

/** A table whose host and store share a clock that the test moves. */
class Lake {
  nowMs = 1_700_000_000_000;
  readonly now = (): number => this.nowMs;
  readonly store: ObjectStore = createMemoryStore({ now: this.now });
  snapshot: Snapshot | null = null;

  async create(properties: Readonly<Record<string, string>> = {}): Promise<this> {
    this.snapshot = await createTable(this.store, {
      schema: SCHEMA,
      properties,
      now: this.now,
      inCommitTimestamps: properties['ict'] === '1',
    });
    return this;
  }

  async file(path: string, ids: readonly bigint[]): Promise<AddFile> {
    const batch = {
      rowCount: ids.length,
      names: ['id'],
      columns: [buildColumn('long', ids.length, (row) => ids[row])],
    };
    const body = await encodeParquet(SCHEMA, batch);
    await this.store.put(path, body);
    return newAdd({
      path,
      partitionValues: {},
      size: BigInt(body.length),
      modificationTime: BigInt(this.nowMs),
      dataChange: true,
      stats: collectStats(SCHEMA, batch, {}),
    });
  }

  /** The same file with these rows marked deleted. */
  async vector(file: AddFile, rows: readonly number[]): Promise<AddFile> {
    const written = encodeDeletionVectors([Uint32Array.from(rows)], crypto.randomUUID());
    await this.store.put(written.key, written.bytes);
    return { ...file, deletionVector: written.descriptors[0] ?? null };
  }

  async commit(actions: Partial<CommitActions>, extra: Readonly<Record<string, unknown>> = {}): Promise<Snapshot> {
    const start = await openSnapshot(this.store, { now: this.now });
    const proposal = { operation: { name: 'WRITE', extra }, actions: { ...NO_ACTIONS, ...actions } };
    this.snapshot = (await commitTo(start, proposal, async () => null, { now: this.now })).snapshot;
    return this.snapshot;
  }

  async keys(): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.store.list('')) if (!key.startsWith('_delta_log/')) keys.push(key);
    return keys;
  }
}

describe('VACUUM', { timeout: 30_000 }, () => {
  it('takes what no version in the retention needs, and nothing else', async () => {
    const lake = await new Lake().create();
    const a = await lake.file('a.parquet', [1n, 2n, 3n]);
    const b = await lake.file('b.parquet', [4n]);
    await lake.commit({ adds: [a, b] });
    const marked = await lake.vector(a, [1]);
    await lake.commit({ removes: [removeOf(a, lake.nowMs, true)], adds: [marked] });
    const again = await lake.vector(a, [0, 1]);
    await lake.commit({ removes: [removeOf(marked, lake.nowMs, true), removeOf(b, lake.nowMs, true)], adds: [again] });
    await lake.store.put('orphan.parquet', new Uint8Array(5));
    await lake.store.put('_change_data/cdc-old.parquet', new Uint8Array(5));
    await lake.store.put('_sluice/fences/x.parquet', new Uint8Array(5));
    await lake.store.put('README.md', new Uint8Array(5));
    const before = await lake.keys();
    expect((await vacuum(lake.store, { now: lake.now })).deleted).toEqual([]);

    lake.nowMs += 6 * DAY;
    await lake.store.put('in-flight.parquet', new Uint8Array(5));
    lake.nowMs += 2 * DAY;
    const dry = await vacuum(lake.store, { now: lake.now, dryRun: true });
    expect(await lake.keys()).toEqual([...before, 'in-flight.parquet'].sort());
    const done = await vacuum(lake.store, { now: lake.now });
    expect(done.deleted).toEqual(dry.deleted);
    expect(done.leftUnknown).toBe(1);
    const [oldVector, liveVector] = [marked, again].map(({ deletionVector }) => deletionVector);
    expect(liveVector).not.toEqual(oldVector);
    const left = await lake.keys();
    expect(done.deleted.filter((key) => !key.startsWith('deletion_vector_'))).toEqual([
      '_change_data/cdc-old.parquet',
      'b.parquet',
      'orphan.parquet',
    ]);
    expect(done.deleted.filter((key) => key.startsWith('deletion_vector_'))).toHaveLength(1);
    expect(left).toContain('in-flight.parquet');
    expect(left).toContain('_sluice/fences/x.parquet');
    expect((await fsck(lake.store, { deep: true })).findings).toEqual([]);
  });

  it('keeps the files of a pinned version', async () => {
    const lake = await new Lake().create();
    const a = await lake.file('a.parquet', [1n]);
    const at = (await lake.commit({ adds: [a] })).version;
    await lake.commit({ removes: [removeOf(a, lake.nowMs, true)] });
    lake.nowMs += 30 * DAY;
    expect((await vacuum(lake.store, { now: lake.now, pinnedVersions: [at] })).deleted).toEqual([]);
    expect((await vacuum(lake.store, { now: lake.now })).deleted).toEqual(['a.parquet']);
  });

  it('stands in the history when asked, around what it deletes, and changes nothing else', async () => {
    const lake = await new Lake().create();
    const a = await lake.file('a.parquet', [1n]);
    await lake.commit({ adds: [a] });
    const { version } = await lake.commit({ removes: [removeOf(a, lake.nowMs, true)] });
    const options = { now: lake.now, inHistory: true };
    expect((await vacuum(lake.store, options)).deleted).toEqual([]);
    lake.nowMs += 30 * DAY;
    expect((await vacuum(lake.store, { ...options, dryRun: true })).deleted).toEqual(['a.parquet']);
    expect((await openSnapshot(lake.store)).version).toBe(version);
    expect((await vacuum(lake.store, options)).deleted).toEqual(['a.parquet']);
    const noted = await Promise.all([1n, 2n].map((after) => readCommit(lake.store, version + after)));
    expect(noted.map((commit) => commit?.commitInfo)).toMatchObject([
      { operation: 'VACUUM START', operationMetrics: { numFilesToDelete: '1' } },
      {
        operation: 'VACUUM END',
        operationParameters: { status: 'COMPLETED' },
        operationMetrics: { numDeletedFiles: '1' },
      },
    ]);
    expect(noted.every((commit) => commit?.adds.length === 0 && commit.removes.length === 0)).toBe(true);
    expect((await fsck(lake.store, { deep: true })).findings).toEqual([]);
  });

  it('leaves a file that a restore brings back while it is at it', async () => {
    const lake = await new Lake().create();
    const a = await lake.file('a.parquet', [1n]);
    const at = (await lake.commit({ adds: [a] })).version;
    await lake.commit({ removes: [removeOf(a, lake.nowMs, true)], adds: [await lake.file('b.parquet', [2n])] });
    lake.nowMs += 30 * DAY;
    await lake.store.put('orphan.parquet', new Uint8Array(5));
    lake.nowMs += 30 * DAY;
    let restored = false;
    const store: ObjectStore = {
      ...lake.store,
      async putIfAbsent(key, body) {
        // Between its look at the log and what it deletes.
        if (!restored) await restoreTable(lake.store, at, { now: lake.now });
        restored = true;
        return lake.store.putIfAbsent(key, body);
      },
    };
    expect((await vacuum(store, { now: lake.now, inHistory: true })).deleted).toEqual(['orphan.parquet']);
    expect(restored).toBe(true);
    expect((await fsck(lake.store, { deep: true })).findings).toEqual([]);
  });

  it('is not fooled by a host clock that ran ahead', async () => {
    const lake = await new Lake().create();
    await lake.store.put('in-flight.parquet', new Uint8Array(5));
    expect((await vacuum(lake.store, { now: () => lake.nowMs + 400 * DAY })).deleted).toEqual([]);
  });

  it('refuses a short retention, one in the past, and tables and paths that it does not understand', async () => {
    const lake = await new Lake().create();
    await expect(vacuum(lake.store, { retentionMs: DAY, now: lake.now })).rejects.toMatchObject({
      code: 'UPKEEP_REFUSED',
    });
    await expect(vacuum(lake.store, { retentionMs: -1, force: true, now: lake.now })).rejects.toMatchObject({
      code: 'UPKEEP_REFUSED',
    });
    expect((await vacuum(lake.store, { retentionMs: DAY, force: true, now: lake.now })).deleted).toEqual([]);
    await lake.commit({ adds: [{ ...(await lake.file('a.parquet', [1n])), path: 'dbfs:/lake/t/a.parquet' }] });
    await expect(vacuum(lake.store, { now: lake.now })).rejects.toMatchObject({ code: 'UPKEEP_REFUSED' });
    const foreign = createMemoryStore();
    const text =
      '{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["someNewFeature"]}}\n' +
      '{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[],"configuration":{}}}\n';
    await foreign.put(commitKey(0n), new TextEncoder().encode(text));
    await expect(vacuum(foreign)).rejects.toMatchObject({ code: 'PROTOCOL_UNSUPPORTED' });
    await expect(vacuum(createMemoryStore())).rejects.toMatchObject({ code: 'TABLE_NOT_FOUND' });
  });

  it('knows hidden folders from those of partition columns', () => {
    const partitions = new Set(['_day']);
    expect(kindOf('_day=2024-01-01/x.parquet', partitions)).toBe('data');
    expect(kindOf('_other=1/x.parquet', partitions)).toBe('hidden');
    expect(kindOf('p=1/_temporary/x.parquet', partitions)).toBe('hidden');
    expect(kindOf('_change_data/p=1/x.parquet', partitions)).toBe('data');
    expect(kindOf('_delta_log/0.json', partitions)).toBe('hidden');
    expect(kindOf('ab/deletion_vector_1.bin', partitions)).toBe('data');
    expect(kindOf('notes.txt', partitions)).toBe('unknown');
  });
});

describe('restore', () => {
  it('brings an older version back as a new one, transactions kept', async () => {
    const lake = await new Lake().create();
    const a = await lake.file('a.parquet', [1n, 2n]);
    const b = await lake.file('b.parquet', [3n]);
    const old = await lake.commit({ adds: [a], txns: [{ appId: 'q', version: 1n, lastUpdated: null }] });
    const marked = await lake.vector(a, [0]);
    await lake.commit({
      removes: [removeOf(a, 1, true)],
      adds: [marked, b],
      txns: [{ appId: 'q', version: 2n, lastUpdated: null }],
    });
    const restored = await restoreTable(lake.store, old.version, { now: lake.now });
    expect(restored.version).toBe(3n);
    const read = await openSnapshot(lake.store);
    expect([...read.files]).toEqual([a]);
    expect(read.txns.get('q')?.version).toBe(2n);
    expect((await restoreTable(lake.store, old.version, { now: lake.now })).version).toBeNull();
    await lake.store.delete(['b.parquet']);
    await expect(restoreTable(lake.store, 2n, { now: lake.now })).rejects.toMatchObject({
      code: 'DATA_FILE_MISSING',
      place: { file: 'b.parquet' },
    });
  });
});

describe('log cleanup', { timeout: 30_000 }, () => {
  it('removes what lies before the newest checkpoint that is past the retention, and no more', async () => {
    const lake = await new Lake().create();
    for (let day = 1; day <= 20; day++) {
      lake.nowMs += DAY;
      const snapshot = await lake.commit({ adds: [await lake.file(`f${day}.parquet`, [BigInt(day)])] });
      if (day % 5 === 0) await writeCheckpoint(snapshot, { now: lake.now });
    }
    expect((await cleanLog(lake.store, { now: lake.now, dryRun: true })).oldestVersion).toBe(10n);
    expect((await openSnapshot(lake.store, { version: 3n })).files.count).toBe(3);
    const done = await cleanLog(lake.store, { now: lake.now });
    expect(done.oldestVersion).toBe(10n);
    expect(done.removed).toContain(commitKey(9n));
    expect(done.removed).toContain(checkpointKey(5n));
    expect(done.removed).not.toContain(commitKey(10n));
    for (const version of [10n, 11n, 14n, 20n]) {
      expect((await openSnapshot(lake.store, { version })).files.count).toBe(Number(version));
    }
    await expect(openSnapshot(lake.store, { version: 9n })).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
    expect((await cleanLog(lake.store, { now: lake.now })).removed).toEqual([]);
  });

  it('removes nothing without a checkpoint that reads, nor for a clock that ran ahead', async () => {
    const lake = await new Lake().create();
    const snapshot = await lake.commit({});
    await writeCheckpoint(snapshot, { now: lake.now });
    expect((await cleanLog(lake.store, { now: () => lake.nowMs + 900 * DAY })).removed).toEqual([]);
    lake.nowMs += 20 * DAY;
    await lake.commit({});
    await lake.store.put(checkpointKey(1n), new Uint8Array(30));
    lake.nowMs += 10 * DAY;
    await lake.commit({});
    await expect(cleanLog(lake.store, { now: lake.now })).rejects.toMatchObject({ code: 'UPKEEP_REFUSED' });
    expect((await openSnapshot(lake.store)).version).toBe(3n);
  });
});

describe('checkpoints by count and size', () => {
  it('are due by either', () => {
    const rules = { commitsMax: 10, commitBytesMax: 1_000 };
    expect(isCheckpointDue({ commits: 9, bytes: 999 }, undefined, rules)).toBe(false);
    expect(isCheckpointDue({ commits: 10, bytes: 0 }, undefined, rules)).toBe(true);
    expect(isCheckpointDue({ commits: 1, bytes: 1_000 }, undefined, rules)).toBe(true);
    expect(isCheckpointDue({ commits: 9, bytes: 0 }, '3', rules)).toBe(true);
    expect(isCheckpointDue({ commits: 9, bytes: 0 }, '20', rules)).toBe(false);
    expect(isCheckpointDue({ commits: 0, bytes: 0 }, undefined, rules)).toBe(false);
  });
  it('are written once they are due, of the newest version', async () => {
    const lake = await new Lake().create();
    const rules = { commitsMax: 3, commitBytesMax: 1e9 };
    const first = lake.snapshot as Snapshot;
    expect(await checkpointIfDue(first, { rules, now: lake.now })).toBeNull();
    await lake.commit({});
    await lake.commit({});
    expect(await checkpointIfDue(first, { rules, now: lake.now })).toMatchObject({ version: 2n });
    expect(await checkpointIfDue(first, { rules, now: lake.now })).toBeNull();
  });
});

describe('upkeep in the background', () => {
  it('does what is due, and tells what failed without failing', async () => {
    const lake = await new Lake().create();
    const rules = { commitsMax: 4, commitBytesMax: 1e9 };
    const upkeep = createUpkeep({
      store: lake.store,
      checkpoint: rules,
      now: lake.now,
      random: () => 0.5,
      vacuumFilesMax: 1,
    });
    const a = await lake.file('a.parquet', [1n]);
    const b = await lake.file('b.parquet', [2n]);
    await lake.commit({ adds: [a, b] });
    await lake.commit({ removes: [removeOf(a, lake.nowMs, true), removeOf(b, lake.nowMs, true)] });
    expect(await upkeep.tick()).toEqual({ checkpoint: null, logFilesRemoved: 0, filesDeleted: 0, failures: [] });
    await lake.commit({});
    expect(await upkeep.tick()).toMatchObject({ checkpoint: 3n });
    lake.nowMs += 20 * DAY;
    await lake.commit({});
    // One file a run, by its limit; the log up to the checkpoint.
    const [one, same] = await Promise.all([upkeep.tick(), upkeep.tick()]);
    expect(one).toBe(same);
    expect(one).toEqual({ checkpoint: null, logFilesRemoved: 3, filesDeleted: 1, failures: [] });
    expect(await upkeep.tick()).toMatchObject({ filesDeleted: 0, logFilesRemoved: 0 });
    lake.nowMs += DAY;
    expect(await upkeep.tick()).toMatchObject({ filesDeleted: 1 });
    await lake.store.put(commitKey(5n), new Uint8Array(0));
    expect((await upkeep.tick()).failures).toMatchObject([
      { job: 'checkpoint', error: { code: 'LOG_COMMIT_CORRUPT' } },
    ]);
  });
});

describe('fsck', () => {
  it('finds each kind of damage, and only that', async () => {
    const lake = await new Lake().create();
    const files = await Promise.all(
      ['gone', 'short', 'broken', 'fine', 'lies'].map((name, at) =>
        lake.file(`${name}.parquet`, [BigInt(at * 10), BigInt(at * 10 + 5)]),
      ),
    );
    const marked = await lake.vector(files[3] as AddFile, [0]);
    const lies = {
      ...(files[4] as AddFile),
      stats: '{"numRecords":3,"minValues":{"id":41},"maxValues":{"id":99},"nullCount":{"id":0}}',
    };
    const twice = await lake.vector(await lake.file('marked.parquet', [1n, 2n]), [1]);
    await lake.commit(
      { adds: [...files.slice(0, 3), marked, lies, twice] },
      { sluiceFences: ['_sluice/fences/lost.parquet'] },
    );
    await lake.store.put('orphan.parquet', new Uint8Array(9));
    await lake.store.delete(['gone.parquet']);
    await lake.store.put('short.parquet', new Uint8Array(3));
    await lake.store.put('broken.parquet', new Uint8Array(Number(files[2]?.size)));
    const vectorKey = twice.deletionVector === null ? null : deletionVectorKey(twice.deletionVector, lake.store.uri);
    const body = await lake.store.get(vectorKey ?? '');
    body[body.length - 6] = (body[body.length - 6] ?? 0) ^ 1;
    await lake.store.put(vectorKey ?? '', body);
    const quick = await fsck(lake.store);
    expect(quick.findings.map(({ kind }) => kind).sort()).toEqual([
      'fence-missing',
      'file-missing',
      'file-size',
      'vector-wrong',
    ]);
    const deep = await fsck(lake.store, { deep: true });
    expect(deep.findings.map(({ kind }) => kind).sort()).toEqual([
      'fence-missing',
      'file-missing',
      'file-size',
      'file-unreadable',
      'row-count',
      'stats-wrong',
      'vector-wrong',
    ]);
    expect(deep.filesChecked).toBe(6);
    expect(deep.orphans).toEqual({ count: 1, bytes: 9 });
  });

  it('takes nothing for damage that other jobs did to a living table between its look at the log and at the files', async () => {
    const lake = await new Lake().create();
    const [a, b] = [await lake.file('a.parquet', [1n, 2n]), await lake.file('b.parquet', [3n])];
    await lake.commit({ adds: [a, b] });
    const marked = await lake.vector(a, [1]);
    await lake.commit({ removes: [removeOf(a, lake.nowMs, true)], adds: [marked] });
    await lake.store.put('_sluice/fences/one.parquet', new Uint8Array(1));
    await lake.commit({}, { sluiceFences: ['_sluice/fences/one.parquet'] });
    const newest = (await lake.commit({ adds: [await lake.file('c.parquet', [4n])] })).version;
    /** Everything is written again, what it replaces goes, and the fences are joined. */
    const meanwhile = async (): Promise<void> => {
      await lake.commit({
        removes: [removeOf(marked, lake.nowMs, false), removeOf(b, lake.nowMs, false)],
        adds: [{ ...(await lake.file('joined.parquet', [1n, 3n])), dataChange: false }],
      });
      const joined = `${'0'.repeat(20)}-${String(newest).padStart(20, '0')}.compacted.parquet`;
      await lake.store.put(`_sluice/fences/${joined}`, new Uint8Array(1));
      const vector = marked.deletionVector === null ? null : deletionVectorKey(marked.deletionVector, lake.store.uri);
      await lake.store.delete(['a.parquet', 'b.parquet', '_sluice/fences/one.parquet', vector ?? '']);
    };
    let calls = 0;
    const store: ObjectStore = {
      ...lake.store,
      async *list(prefix, options) {
        for await (const meta of lake.store.list(prefix, options))
          // A listing that is taken while commits come may have the newer of two alone.
          if (calls === 0 || meta.key !== commitKey(newest - 2n)) yield meta;
        if (prefix === '' && calls++ === 0) await meanwhile();
      },
    };
    expect((await fsck(store, { deep: true })).findings).toEqual([]);
    expect(calls).toBe(1);
  });

  it('finds damage in the history before a checkpoint, which opening does not look at', async () => {
    const lake = await new Lake().create();
    for (let at = 0; at < 4; at++) await lake.commit({});
    await writeCheckpoint(await openSnapshot(lake.store), { now: lake.now });
    await lake.store.delete([commitKey(2n)]);
    expect((await fsck(lake.store)).findings).toMatchObject([{ kind: 'log-unreadable', file: commitKey(2n) }]);
    await lake.store.put(commitKey(2n), new TextEncoder().encode('{"add":'));
    expect((await fsck(lake.store)).findings).toMatchObject([{ kind: 'log-unreadable', file: commitKey(2n) }]);
  });

  it('compares bounds exactly', () => {
    expect(compareBounds(9007199254740993n, 9007199254740992)).toBe(1);
    expect(compareBounds(1.5, 2)).toBe(-1);
    expect(compareBounds('a', 'b')).toBe(-1);
    expect(compareBounds('2024-01-01T00:00:00.123Z', '2024-01-01T00:00:00.124Z')).toBe(0);
    expect(compareBounds('2024-01-01T00:00:00.999Z', '2024-01-01T00:00:01.000Z')).toBe(0);
    expect(compareBounds('2024-01-01 00:00:00', '2024-01-01T00:00:01Z')).toBe(-1);
    expect(compareBounds('x', 1)).toBeNull();
  });
});

describe('time travel', () => {
  it.each([false, true])('finds the version of a time (in-commit timestamps: %s)', async (inCommitTimestamps) => {
    const lake = new Lake();
    await createTable(lake.store, { schema: SCHEMA, now: lake.now, inCommitTimestamps });
    const start = lake.nowMs;
    for (let hour = 1; hour <= 5; hour++) {
      lake.nowMs += 3_600_000;
      await lake.commit({ adds: [await lake.file(`f${hour}.parquet`, [1n])] });
    }
    expect(await versionAt(lake.store, start)).toBe(0n);
    expect(await versionAt(lake.store, start + 3_600_000)).toBe(1n);
    expect(await versionAt(lake.store, start + 2.5 * 3_600_000)).toBe(2n);
    expect(await versionAt(lake.store, start + 99 * 3_600_000)).toBe(5n);
    expect((await openSnapshotAt(lake.store, start + 3.1 * 3_600_000)).files.count).toBe(3);
    await expect(versionAt(lake.store, start - 1)).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
    const versions: bigint[] = [];
    for await (const { version } of readHistory(lake.store, { before: 3n })) versions.push(version);
    expect(versions).toEqual([2n, 1n, 0n]);
  });

  it('finds the version of a time while old commits are cleaned up', async () => {
    const lake = new Lake();
    await createTable(lake.store, { schema: SCHEMA, now: lake.now, inCommitTimestamps: true });
    for (let hour = 1; hour <= 5; hour++) {
      lake.nowMs += 3_600_000;
      await lake.commit({});
    }
    let lists = 0;
    const cleaned: ObjectStore = {
      ...lake.store,
      list(prefix, options) {
        lists++;
        return lake.store.list(prefix, options);
      },
      get(key, range) {
        // Of the second listing, that of all commits, the first four are gone when they are read.
        if (lists > 1 && [0n, 1n, 2n, 3n].some((version) => key === commitKey(version)))
          return Promise.reject(new StoreError('STORE_NOT_FOUND', key, 'cleaned up'));
        return lake.store.get(key, range);
      },
    };
    expect(await versionAt(cleaned, lake.nowMs)).toBe(5n);
  });

  it('gives commits of one file time, or of a time that went back, rising times', async () => {
    const lake = await new Lake().create();
    const start = lake.nowMs;
    await lake.commit({});
    lake.nowMs -= 5_000;
    await lake.commit({});
    expect(await versionAt(lake.store, start)).toBe(0n);
    expect(await versionAt(lake.store, start + 1)).toBe(1n);
    expect(await versionAt(lake.store, start + 2)).toBe(2n);
  });
});

describe('a table with row tracking and clustering', () => {
  /** As Spark leaves one: each file with its row ids, and the domains that go with them. */
  async function tracked(): Promise<Lake> {
    const lake = await new Lake().create();
    const add = { ...(await lake.file('a.parquet', [1n, 2n])), baseRowId: 40n, defaultRowCommitVersion: 1n };
    await lake.commit({ adds: [{ ...add, clusteringProvider: 'liquid' }] });
    const { protocol } = await openSnapshot(lake.store);
    const actions = [
      {
        protocol: {
          ...protocol,
          minReaderVersion: 3,
          minWriterVersion: 7,
          readerFeatures: [],
          writerFeatures: FEATURES,
        },
      },
      { domainMetadata: { domain: 'delta.rowTracking', configuration: '{"rowIdHighWaterMark":41}', removed: false } },
    ];
    await lake.store.put(commitKey(2n), Buffer.from(actions.map((action) => JSON.stringify(action)).join('\n')));
    return lake;
  }
  const FEATURES = ['domainMetadata', 'rowTracking', 'clustering', 'typeWidening'];

  it('is checkpointed with all of it, and vacuumed', async () => {
    const lake = await tracked();
    await lake.file('orphan.parquet', [3n]);
    await writeCheckpoint(await openSnapshot(lake.store, { tombstones: true }));
    await lake.store.delete([0n, 1n, 2n].map(commitKey));
    lake.nowMs += 30 * DAY;
    expect((await vacuum(lake.store, { now: lake.now, inHistory: true })).deleted).toEqual(['orphan.parquet']);
    const { files, domains } = await openSnapshot(lake.store);
    expect([...files]).toMatchObject([{ baseRowId: 40n, defaultRowCommitVersion: 1n, clusteringProvider: 'liquid' }]);
    expect(domains.get('delta.rowTracking')?.configuration).toBe('{"rowIdHighWaterMark":41}');
  });

  it('is neither written nor rearranged: new files would need their row ids', async () => {
    const lake = await tracked();
    const snapshot = await openSnapshot(lake.store);
    const [file] = [...snapshot.files];
    const add = await lake.file('b.parquet', [1n, 2n]);
    const refused = { code: 'PROTOCOL_UNSUPPORTED', message: expect.stringContaining('"rowTracking", "clustering"') };
    for (const dataChange of [true, false]) {
      const actions = {
        ...NO_ACTIONS,
        adds: [{ ...add, dataChange }],
        removes: [removeOf(file as AddFile, 1, dataChange)],
      };
      const proposal = { operation: { name: 'TEST', parameters: {} }, actions };
      await expect(commitTo(snapshot, proposal, () => Promise.resolve(proposal))).rejects.toMatchObject(refused);
    }
  });
});
