import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { columnFrom } from '../../test/support/column-from.ts';
import { ENTRY_WORDS } from '../index/entry.ts';
import { loadManifest, saveManifest } from '../index/manifest.ts';
import { createRun, openRun } from '../index/run-file.ts';
import type { MergeBatch } from '../merge/merge.ts';
import { openMergeTable } from '../merge/merge-writer.ts';
import { createMemoryStore } from '../store/memory-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { checkIndex, rebuildIndex } from './fsck-index.ts';

const root = mkdtempSync(join(tmpdir(), 'sluice-fsck-index-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function batchOf(ids: readonly number[], lsn: bigint, deleted: readonly number[] = []): MergeBatch {
  const all = [...ids, ...deleted];
  const field = (name: string, type: 'long' | 'string') => ({ name, type, nullable: true, metadata: {} });
  return {
    rowCount: all.length,
    schema: { type: 'struct', fields: [field('id', 'long'), field('v', 'string')] },
    columns: [
      columnFrom('long', all.map(BigInt)),
      columnFrom(
        'string',
        all.map((id) => `${id}`),
      ),
    ],
    keyColumns: ['id'],
    ops: Uint8Array.from(all, (_, i) => (i < ids.length ? 0 : 1)),
    absent: [null, null],
    epoch: new Int32Array(all.length).fill(1),
    lsn: new BigUint64Array(all.length).fill(lsn),
    ord: new Int32Array(all.length),
    truncate: null,
  };
}

let store: ObjectStore;
let folder: string;
let folders = 0;
/** 250 rows in three files, some updated, some deleted, one compaction. */
beforeEach(async () => {
  store = createMemoryStore();
  folder = join(root, String(++folders));
  const table = await openMergeTable({ store, indexDir: folder });
  const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
  let lsn = 1n;
  for (const batch of [
    batchOf(range(0, 100), 1n),
    batchOf(range(100, 200), 2n),
    batchOf(range(50, 150), 3n, range(0, 10)),
    batchOf(range(200, 260), 4n),
  ]) {
    await table.commit(await table.prepare(batch), {
      txns: [{ appId: 'a', version: lsn++ }],
      info: {},
      timestampMs: 0,
    });
    if (lsn === 4n) await table.optimize();
  }
  await table.close();
});

/** The only run, its entries changed as asked. */
async function rewrite(change: (entries: Uint32Array) => Uint32Array): Promise<void> {
  const manifest = (await loadManifest(folder))!;
  const entries: number[] = [];
  // Newest first, as the table needs them: one run with each key's newest entry.
  const seen = new Set<string>();
  for (const name of manifest.runs) {
    const run = openRun(join(folder, name));
    const block = new Uint32Array(run.count * ENTRY_WORDS);
    run.read(0, block);
    run.close();
    for (let at = 0; at < block.length; at += ENTRY_WORDS) {
      const key = block.subarray(at, at + 4).join();
      if (!seen.has(key)) entries.push(...block.subarray(at, at + ENTRY_WORDS));
      seen.add(key);
    }
  }
  const { sortEntries } = await import('../index/entry.ts');
  const changed = change(sortEntries(Uint32Array.from(entries)));
  const writer = await createRun(join(folder, 'one.run'), changed.length / ENTRY_WORDS);
  await writer.append(changed, changed.length / ENTRY_WORDS);
  await writer.finish();
  await saveManifest(folder, { ...manifest, runs: ['one.run'] });
}
/** Place of the first entry of a living row. */
const firstRow = (entries: Uint32Array): number => {
  for (let at = 0; at < entries.length; at += ENTRY_WORDS) if (entries[at + 4] !== 0xffff_ffff) return at;
  throw new Error('no row');
};

describe('the index against the table', () => {
  test('is clean after merges and a compaction', async () => {
    expect(await checkIndex(store, folder)).toMatchObject({ rowsChecked: 250, findings: [], skipped: null });
    await rewrite((entries) => entries);
    expect(await checkIndex(store, folder)).toMatchObject({ rowsChecked: 250, findings: [] });
    expect(await checkIndex(store, join(root, 'nowhere'))).toMatchObject({ version: null, findings: [] });
  });

  test.each([
    ['an entry that is gone', (all: Uint32Array, at: number) => cut(all, at)],
    ['a wrong row', (all: Uint32Array, at: number) => set(all, at + 5, (all[at + 5] ?? 0) + 1)],
    ['a wrong position', (all: Uint32Array, at: number) => set(all, at + 8, 99)],
    ['a file that is none', (all: Uint32Array, at: number) => set(all, at + 4, 77_777)],
  ])('%s is found, and repaired', async (_, plant) => {
    await rewrite((entries) => plant(entries, firstRow(entries)));
    const found = await checkIndex(store, folder);
    expect(found.findings[0]).toMatchObject({ kind: 'index-lacks' });
    expect(found.findings[0]!.message).toMatch(/^1 of its /);
    const at = await rebuildIndex(store, folder);
    expect(await checkIndex(store, folder)).toMatchObject({ version: at, rowsChecked: 250, findings: [] });
    const table = await openMergeTable({ store, indexDir: folder });
    await table.prepare(batchOf([5, 60, 300], 9n));
    expect(table.lastFollow()).toBe('current');
    await table.close();
  });

  test('a key that is none of the table is found', async () => {
    await rewrite((entries) => {
      const at = firstRow(entries);
      const stray = entries.slice(at, at + ENTRY_WORDS);
      stray[3] = (stray[3] ?? 0) ^ 1;
      const both = new Uint32Array(entries.length + ENTRY_WORDS);
      const before = (stray[3] ?? 0) < (entries[at + 3] ?? 0);
      both.set(entries.subarray(0, before ? at : at + ENTRY_WORDS));
      both.set(stray, before ? at : at + ENTRY_WORDS);
      both.set(entries.subarray(before ? at : at + ENTRY_WORDS), (before ? at : at + ENTRY_WORDS) + ENTRY_WORDS);
      return both;
    });
    expect((await checkIndex(store, folder)).findings).toMatchObject([{ kind: 'index-strays' }]);
  });

  test('a damaged page, a run that is gone, a manifest that is none', async () => {
    const [name] = (await loadManifest(folder))!.runs;
    const path = join(folder, name!);
    const bytes = readFileSync(path);
    bytes[100]! ^= 1;
    writeFileSync(path, bytes);
    expect((await checkIndex(store, folder)).findings).toMatchObject([{ kind: 'index-corrupt', file: path }]);
    rmSync(path);
    expect((await checkIndex(store, folder)).findings).toMatchObject([{ kind: 'index-corrupt' }]);
    expect(await rebuildIndex(store, folder)).not.toBe(null);
    expect((await checkIndex(store, folder)).findings).toEqual([]);
    writeFileSync(join(folder, 'manifest.json'), '{');
    expect((await checkIndex(store, folder)).findings).toMatchObject([{ kind: 'index-corrupt' }]);
    expect(await rebuildIndex(store, folder)).toBe(null);
    expect(await checkIndex(store, folder)).toMatchObject({ version: null, findings: [] });
  });

  test('an index ahead of its table is found', async () => {
    const manifest = (await loadManifest(folder))!;
    await saveManifest(folder, { ...manifest, tableVersion: 99n });
    expect((await checkIndex(store, folder)).findings).toMatchObject([{ kind: 'index-ahead' }]);
  });
});

function cut(all: Uint32Array, at: number): Uint32Array {
  const out = new Uint32Array(all.length - ENTRY_WORDS);
  out.set(all.subarray(0, at));
  out.set(all.subarray(at + ENTRY_WORDS), at);
  return out;
}
function set(all: Uint32Array, at: number, value: number): Uint32Array {
  const out = all.slice();
  out[at] = value;
  return out;
}
