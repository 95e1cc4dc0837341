import { expect, test } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { newAdd, type AddFile } from '../table/actions.ts';
import { encodeDeletionVectors } from '../table/deletion-vector.ts';
import { createVectorCache, createVectorMemory } from './vector-cache.ts';

const KIB = 1024;
const rowsUpTo = (count: number): Uint32Array => Uint32Array.from({ length: count }, (_, row) => row);

function fileWith(path: string, uuid: string, rows: Uint32Array): { file: AddFile; bytes: Uint8Array; key: string } {
  const { bytes, descriptors, key } = encodeDeletionVectors([rows], uuid);
  const base = { path, partitionValues: {}, size: 1n, modificationTime: 0n, dataChange: true, stats: null };
  return { file: newAdd({ ...base, deletionVector: descriptors[0] ?? null }), bytes, key };
}

test('of a file whose vector is written again and again only the newest is held', async () => {
  const memory = createVectorMemory(64 * KIB);
  const cache = createVectorCache(memory);
  const store = createMemoryStore();
  for (let i = 1; i <= 50; i++) {
    const { file } = fileWith(
      'a.parquet',
      `d2c639aa-8816-431a-aaf6-d3fe2512ff${String(i).padStart(2, '0')}`,
      rowsUpTo(i),
    );
    cache.put(file, rowsUpTo(i));
    // Nothing stands in the store: it comes out of memory.
    expect([...((await cache.rowsOf(store, [file])).get('a.parquet') ?? [])]).toEqual([...rowsUpTo(i)]);
  }
  expect(memory.bytes).toBe(50 * 4);
});

test('an older vector of a file is read again, and is not what the newer one holds', async () => {
  const memory = createVectorMemory(64 * KIB);
  const cache = createVectorCache(memory);
  const store = createMemoryStore();
  const older = fileWith('a.parquet', 'd2c639aa-8816-431a-aaf6-d3fe2512ff61', rowsUpTo(3));
  const newer = fileWith('a.parquet', 'd2c639aa-8816-431a-aaf6-d3fe2512ff62', rowsUpTo(5));
  for (const { key, bytes } of [older, newer]) await store.put(key, bytes);
  cache.put(newer.file, rowsUpTo(5));
  expect((await cache.rowsOf(store, [older.file])).get('a.parquet')).toEqual(rowsUpTo(3));
  expect((await cache.rowsOf(store, [newer.file])).get('a.parquet')).toEqual(rowsUpTo(5));
});

test('all tables share the bound, what was used last stays, and files of one name in two tables are two', async () => {
  const memory = createVectorMemory(10 * KIB);
  const caches = Array.from({ length: 20 }, () => createVectorCache(memory));
  const store = createMemoryStore();
  const { file, key, bytes } = fileWith('a.parquet', 'd2c639aa-8816-431a-aaf6-d3fe2512ff61', rowsUpTo(256));
  const { file: other } = fileWith('a.parquet', 'd2c639aa-8816-431a-aaf6-d3fe2512ff62', rowsUpTo(256));
  caches[0]?.put(other, rowsUpTo(256));
  for (const cache of caches.slice(1)) {
    cache.put(file, rowsUpTo(256));
    expect((await caches[0]?.rowsOf(store, [other]))?.get('a.parquet')).toHaveLength(256);
    expect(memory.bytes).toBeLessThanOrEqual(10 * KIB);
  }
  // The second table's went; it is read again.
  await expect(caches[1]?.rowsOf(store, [file])).rejects.toThrow(/deletion_vector_/);
  await store.put(key, bytes);
  expect((await caches[1]?.rowsOf(store, [file]))?.get('a.parquet')).toEqual(rowsUpTo(256));
});
