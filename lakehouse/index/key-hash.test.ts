import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ColumnVector } from '../table/column.ts';
import { compareHash, groupByHash, hashKeys, hashText, sortByHash } from './key-hash.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? 50);

function int32(values: readonly (number | null)[]): ColumnVector {
  return {
    kind: 'int32',
    length: values.length,
    validity: bits(values),
    values: Int32Array.from(values, (v) => v ?? 0),
  };
}
function int64(values: readonly (bigint | null)[]): ColumnVector {
  return {
    kind: 'int64',
    length: values.length,
    validity: bits(values),
    values: BigInt64Array.from(values, (v) => v ?? 0n),
  };
}
function utf8(values: readonly (string | null)[]): ColumnVector {
  const parts = values.map((v) => Buffer.from(v ?? ''));
  const offsets = new Int32Array(values.length + 1);
  parts.forEach((part, i) => (offsets[i + 1] = offsets[i]! + part.length));
  return { kind: 'utf8', length: values.length, validity: bits(values), offsets, data: Buffer.concat(parts) };
}
function bits(values: readonly unknown[]): Uint8Array | null {
  if (!values.includes(null)) return null;
  const out = new Uint8Array((values.length + 7) >> 3);
  values.forEach((v, i) => v !== null && (out[i >> 3]! |= 1 << (i & 7)));
  return out;
}

describe('hashKeys', () => {
  test('is SHA-256 of the canonical form, cut to 16 bytes', () => {
    const canonical = Buffer.from([1, 42, 0, 0, 0, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0x68, 0x69]);
    const wanted = createHash('sha256').update(canonical).digest().subarray(0, 16);
    expect(Buffer.from(hashKeys([int32([42]), utf8(['hi'])], 1).buffer)).toEqual(wanted);
  });
  test('does not depend on the width of an integer column', () => {
    expect(hashKeys([int32([-7, 2 ** 31 - 1])], 2)).toEqual(hashKeys([int64([-7n, 2147483647n])], 2));
  });
  test('tells apart what a plain concatenation would not', () => {
    const hashes = hashKeys([utf8(['a', 'ab', '', null]), utf8(['bc', 'c', 'abc', 'abc'])], 4);
    expect(groupByHash(hashes, 4).groupCount).toBe(4);
  });
  test('tells apart neighbours above 2^53', () => {
    const hashes = hashKeys([int64([9007199254740992n, 9007199254740993n])], 2);
    expect(compareHash(hashes, 0, hashes, 1)).not.toBe(0);
  });
  test('holds the two zeros to be one key', () => {
    const column: ColumnVector = { kind: 'float64', length: 2, validity: null, values: Float64Array.of(0, -0) };
    const hashes = hashKeys([column], 2);
    expect(compareHash(hashes, 0, hashes, 1)).toBe(0);
  });
  test('tells lists apart by their elements and where they end, NULLs among them', () => {
    const child = utf8(['a', 'b', 'ab', 'a', null, null, 'a'.repeat(900)]);
    const lists = (offsets: readonly number[]): ColumnVector => ({
      kind: 'list',
      length: offsets.length - 1,
      validity: null,
      offsets: Int32Array.from(offsets),
      child,
    });
    // [a, b], [ab], [a, null], [null], [a…], []
    expect(groupByHash(hashKeys([lists([0, 2, 3, 5, 6, 7, 7])], 6), 6).groupCount).toBe(6);
    expect(hashKeys([lists([0, 1])], 1)).toEqual(hashKeys([lists([3, 4])], 1));
  });
  test('takes keys longer than its scratch buffer', () => {
    const long = 'ü'.repeat(5000);
    const hashes = hashKeys([utf8([long, `${long}x`, long])], 3);
    expect([...groupByHash(hashes, 3).groupOf]).toEqual([0, 1, 0]);
  });
  test('refuses a struct column by name, in a list too', () => {
    const base = { length: 0, validity: null } as const;
    const struct: ColumnVector = { ...base, kind: 'struct', names: ['n'], children: [int32([])] };
    const list: ColumnVector = { ...base, kind: 'list', offsets: new Int32Array(1), child: struct };
    expect(() => hashKeys([struct], 0)).toThrow(/struct column cannot be part of a key/);
    expect(() => hashKeys([list], 0)).toThrow(/struct column cannot be part of a key/);
  });
});

test('sortByHash and groupByHash agree with a plain sort and a map', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 300 }), (ids) => {
      const hashes = hashKeys([int32(ids)], ids.length);
      const text = (row: number): string =>
        [...hashes.subarray(row * 4, row * 4 + 4)].map((w) => w.toString(16).padStart(8, '0')).join('');
      const wanted = ids.map((_, row) => row).sort((a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : a - b));
      expect([...sortByHash(hashes, ids.length)]).toEqual(wanted);
      const seen = new Map<number, number>();
      for (const id of ids) if (!seen.has(id)) seen.set(id, seen.size);
      const groups = groupByHash(hashes, ids.length);
      expect(groups.groupCount).toBe(seen.size);
      expect([...groups.groupOf]).toEqual(ids.map((id) => seen.get(id)));
      if (ids.length > 0) expect(text(0).startsWith(hashText(hashes, 0))).toBe(true);
    }),
    { numRuns: RUNS },
  );
});

test('sorts records whose first words tie', () => {
  const hashes = Uint32Array.of(7, 2, 0, 0, 7, 1, 9, 0, 7, 1, 8, 0, 0xffffffff, 0, 0, 0, 0, 0, 0, 1);
  expect([...sortByHash(hashes, 5)]).toEqual([4, 2, 1, 0, 3]);
});
