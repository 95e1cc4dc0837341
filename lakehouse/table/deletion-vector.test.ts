import fc from 'fast-check';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import type { DeletionVectorDescriptor } from './deletion-vector-descriptor.ts';
import { deletionVectorKey, encodeDeletionVectors, readDeletionVector } from './deletion-vector.ts';
import { containsRow, decodeRowBitmap, encodeRowBitmap, subtractRows, unionRows } from './row-bitmap.ts';
import { decodeZ85, encodeZ85 } from './z85.ts';

const runs = Number(process.env['SLUICE_TEST_RUNS'] ?? 50);
const UUID = 'd2c639aa-8816-431a-aaf6-d3fe2512ff61';

/** Sparse rows, dense stretches (bitset containers) and container borders. */
const rowSet = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0, max: 200_000 }).map((row) => [row]),
      fc
        .record({ from: fc.integer({ min: 0, max: 150_000 }), length: fc.integer({ min: 1, max: 6_000 }) })
        .map(({ from, length }) => Array.from({ length }, (_, i) => from + i)),
      fc.constantFrom([0], [65_535, 65_536], [4_294_967_295]),
    ),
    { maxLength: 6 },
  )
  .map((parts) => Uint32Array.from([...new Set(parts.flat())].sort((a, b) => a - b)));

const descriptor = (parts: Partial<DeletionVectorDescriptor>): DeletionVectorDescriptor => ({
  storageType: 'u',
  pathOrInlineDv: '',
  offset: 1,
  sizeInBytes: 0,
  cardinality: 0n,
  ...parts,
});

describe('the vector file name', () => {
  it('is the uuid in its z85 text, below a directory prefix', () => {
    const parts = { pathOrInlineDv: 'ab^-aqEH.-t@S}K{vb[*k^' };
    expect(deletionVectorKey(descriptor(parts), 's3://b/t')).toBe(`ab/deletion_vector_${UUID}.bin`);
    expect(encodeZ85(Buffer.from(UUID.replaceAll('-', ''), 'hex'))).toBe('^-aqEH.-t@S}K{vb[*k^');
  });

  it('is the decoded path for an absolute one inside the table, and none outside', () => {
    const inside = descriptor({ storageType: 'p', pathOrInlineDv: 's3://b/t/x%20y.bin' });
    expect(deletionVectorKey(inside, 's3://b/t')).toBe('x y.bin');
    expect(deletionVectorKey(inside, 's3://b/other')).toBeNull();
  });
});

describe('the bitmap', () => {
  it('reads the inline vector of six rows', () => {
    const bytes = decodeZ85('^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L').subarray(0, 44);
    expect([...decodeRowBitmap(bytes)]).toEqual([3, 4, 7, 11, 18, 29]);
  });

  it('reads an inline vector whose last group is short', () => {
    const bytes = decodeZ85('^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093');
    expect([bytes.length, ...decodeRowBitmap(bytes)]).toEqual([34, 3]);
  });

  it('comes back as it was written', () => {
    fc.assert(
      fc.property(rowSet, (rows) => {
        expect(decodeRowBitmap(encodeRowBitmap(rows))).toEqual(rows);
      }),
      { numRuns: runs },
    );
  });

  it('has set semantics in union and difference', () => {
    fc.assert(
      fc.property(rowSet, rowSet, (a, b) => {
        const union = new Set([...a, ...b]);
        expect([...unionRows(a, b)]).toEqual([...union].sort((x, y) => x - y));
        expect([...subtractRows(a, b)]).toEqual([...a].filter((row) => !containsRow(b, row)));
      }),
      { numRuns: Math.ceil(runs / 5) },
    );
  });

  it('is refused when damaged, and never read as other rows without notice of its size', () => {
    const bytes = encodeRowBitmap(Uint32Array.of(1, 5, 70_000));
    for (let size = 0; size < bytes.length; size++)
      expect(() => decodeRowBitmap(bytes.subarray(0, size))).toThrow(RangeError);
    expect(() => encodeRowBitmap(Uint32Array.of(5, 5))).toThrow(RangeError);
  });
});

describe('a vector file', () => {
  const write = async (...vectors: Uint32Array[]) => {
    const store = createMemoryStore();
    const file = encodeDeletionVectors(vectors, UUID);
    await store.put(file.key, file.bytes);
    return { store, file };
  };

  it('holds many vectors, each read by its own range', async () => {
    const vectors = [Uint32Array.of(0), Uint32Array.from({ length: 9_000 }, (_, i) => i * 2), Uint32Array.of(7, 9)];
    const { store, file } = await write(...vectors);
    expect(file.descriptors[0]).toMatchObject({ storageType: 'u', offset: 1, cardinality: 1n });
    for (const [i, entry] of file.descriptors.entries())
      expect(await readDeletionVector(store, entry)).toEqual(vectors[i]);
  });

  it('is read again when it was cut off on its way', async () => {
    const { store, file } = await write(Uint32Array.of(1, 2, 3));
    let asked = 0;
    const once: ObjectStore = {
      ...store,
      get(key, range) {
        asked++;
        return asked === 1 ? Promise.reject(new StoreError('STORE_TRUNCATED', key, 'cut off')) : store.get(key, range);
      },
    };
    expect(await readDeletionVector(once, file.descriptors[0]!)).toEqual(Uint32Array.of(1, 2, 3));
  });

  it('is a named error when gone, cut short, altered or of another cardinality', async () => {
    const { store, file } = await write(Uint32Array.of(1, 2, 3));
    const entry = file.descriptors[0]!;
    const place = { place: { file: file.key } };
    await expect(readDeletionVector(store, { ...entry, cardinality: 4n })).rejects.toMatchObject({
      code: 'DATA_FILE_CORRUPT',
      ...place,
    });
    const altered = file.bytes.slice();
    altered[20] = (altered[20] ?? 0) ^ 1;
    await store.put(file.key, altered);
    await expect(readDeletionVector(store, entry)).rejects.toMatchObject({ code: 'DATA_FILE_CORRUPT', ...place });
    await store.put(file.key, file.bytes.subarray(0, 12));
    await expect(readDeletionVector(store, entry)).rejects.toMatchObject({ code: 'DATA_FILE_CORRUPT', ...place });
    await store.delete([file.key]);
    await expect(readDeletionVector(store, entry)).rejects.toMatchObject({ code: 'DATA_FILE_MISSING', ...place });
  });
});

const corpus = join(dirname(fileURLToPath(import.meta.url)), '../../../shared/delta-tables');

describe.skipIf(!existsSync(corpus))('vectors that Spark wrote (skipped without the table corpus)', () => {
  it('decode, agree with their checksums, and come back from our encoder', () => {
    const files = readdirSync(corpus, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /deletion_vector_.*\.bin$/.test(name),
    );
    expect(files.length).toBeGreaterThan(20);
    let vectors = 0;
    for (const name of files) {
      const bytes = readFileSync(join(corpus, name));
      expect(bytes[0]).toBe(1);
      for (let at = 1; at < bytes.length;) {
        const size = bytes.readInt32BE(at);
        const rows = decodeRowBitmap(bytes.subarray(at + 4, at + 4 + size));
        expect(rows.length).toBeGreaterThan(0);
        expect(decodeRowBitmap(encodeRowBitmap(rows))).toEqual(rows);
        vectors++;
        at += size + 8;
      }
    }
    expect(vectors).toBeGreaterThanOrEqual(files.length);
  });
});
