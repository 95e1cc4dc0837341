import { describe, expect, it } from 'vitest';
import { compileShapeEncoder } from '../log/envelope-encode.ts';
import type { ColumnShape } from '../log/event.ts';
import { rowHashOf } from '../log/bag-key.ts';
import { CellKind } from '../log/tuple.ts';
import { createBagLoad } from './bag-load.ts';
import { bagKey } from './bag-rows.ts';
import { createTuple } from './pgoutput/read-tuple.ts';
import { parseSnapshot } from './visibility.ts';

const column = (name: string): ColumnShape => ({
  name,
  typeOid: 25,
  typeModifier: -1,
  pgType: 'text',
  baseType: null,
  kind: 'base',
  enumLabels: null,
  notNull: false,
  keyPosition: 0,
});
const shapeOf = (...names: string[]) =>
  compileShapeEncoder(
    { schema: 's', table: 't', oid: 1, version: 1, columns: names.map(column) },
    { name: 'p', database: 'd' },
  );
function tupleOf(cells: readonly (string | null)[]) {
  const tuple = createTuple(cells.length);
  tuple.bytes = Buffer.from(cells.map((cell) => cell ?? '').join(''));
  let at = 0;
  cells.forEach((cell, i) => {
    tuple.kinds[i] = cell === null ? CellKind.null : CellKind.text;
    tuple.starts[i] = at;
    at += Buffer.byteLength(cell ?? '');
    tuple.ends[i] = at;
  });
  return tuple;
}

describe("a row's key by content", () => {
  const key = (names: string[], cells: (string | null)[]): string | null =>
    rowHashOf(bagKey(shapeOf(...names), tupleOf(cells)));

  it('tells rows apart, and NULL from an empty text', () => {
    const all = [
      key(['a', 'b'], ['x', 'y']),
      key(['a', 'b'], ['xy', '']),
      key(['a', 'b'], ['', 'xy']),
      key(['a', 'b'], [null, 'xy']),
      key(['a', 'b'], ['xy', null]),
    ];
    expect(new Set(all).size).toBe(5);
    expect(key(['a', 'b'], ['x', 'y'])).toBe(all[0]);
    expect(all.every((hash) => /^[0-9a-f]{32}$/.test(hash ?? ''))).toBe(true);
  });

  it('stays when a column is added that is NULL in the row', () => {
    expect(key(['a', 'later'], ['x', null])).toBe(key(['a'], ['x']));
  });

  it('takes rows of any width', () => {
    expect(key(['a'], ['w'.repeat(9_000_000)])).not.toBe(key(['a'], ['w'.repeat(9_000_001)]));
    expect(rowHashOf(Buffer.from('{"id":1}'))).toBeNull();
    expect(rowHashOf(null)).toBeNull();
  });
});

describe('a bag while it is loaded', () => {
  const a = Buffer.from('a');
  const b = Buffer.from('b');
  const begin = (keysMax = 10) => createBagLoad(parseSnapshot('100:105:102'), keysMax);

  it('knows whose effects its rows hold', () => {
    const load = begin();
    expect([99, 101, 102, 104, 105].map((xid) => load.sees(xid))).toEqual([true, true, false, true, false]);
  });

  it('keeps deletes until a row comes that they take away, or until the end', () => {
    const load = begin();
    for (const key of [a, a, b]) load.defer(key);
    expect(load.absorb(a)).toBe(true);
    expect(load.absorb(Buffer.from('c'))).toBe(false);
    expect(load.waiting).toBe(2);
    expect(load.take(1).map(String)).toEqual(['a']);
    expect(load.take(5).map(String)).toEqual(['b']);
    expect(load.absorb(a)).toBe(false);
    expect(load.waiting).toBe(0);
  });

  it('says when it cannot go on', () => {
    const load = begin(1);
    load.defer(a);
    load.defer(a);
    expect(load.broken).toBeNull();
    load.defer(b);
    expect(load.broken).toBe('too-many-deletes');
    const other = begin();
    other.truncated();
    expect(other.broken).toBe('truncated');
  });
});
