/** Shapes, tuples and row events for tests, from plain text cells. */
import type { ColumnShape, TableShape } from '../../services/log/event.ts';
import { lsn } from '../../services/log/position.ts';
import type { RowEvent } from '../../services/log/row-event.ts';
import { CellKind, type Tuple } from '../../services/log/tuple.ts';

export const UNCHANGED = Symbol('unchanged');
/** PostgreSQL text, NULL, or unchanged TOAST. */
export type CellText = string | null | typeof UNCHANGED;

export function columnOf(name: string, pgType: string, keyPosition = 0, extra: Partial<ColumnShape> = {}): ColumnShape {
  const array = pgType.endsWith('[]');
  return {
    name,
    typeOid: 0,
    typeModifier: -1,
    pgType,
    baseType: array ? pgType.slice(0, -2) : null,
    kind: array ? 'array' : 'base',
    enumLabels: null,
    notNull: false,
    keyPosition,
    ...extra,
  };
}

export function shapeOf(columns: readonly ColumnShape[], extra: Partial<TableShape> = {}): TableShape {
  return { schema: 'public', table: 'orders', oid: 4711, version: 7, columns, ...extra };
}

export function tupleOf(cells: readonly CellText[]): Tuple {
  const kinds = new Uint8Array(cells.length);
  const starts = new Int32Array(cells.length);
  const ends = new Int32Array(cells.length);
  const parts: Buffer[] = [Buffer.from('head')];
  let at = 4;
  cells.forEach((cell, i) => {
    if (cell === null) kinds[i] = CellKind.null;
    else if (typeof cell === 'symbol') kinds[i] = CellKind.unchanged;
    else {
      const bytes = Buffer.from(cell);
      kinds[i] = CellKind.text;
      starts[i] = at;
      ends[i] = at + bytes.length;
      at += bytes.length;
      parts.push(bytes);
    }
  });
  return { bytes: Buffer.concat(parts), kinds, starts, ends };
}

/** The message in which PostgreSQL sends a row of a snapshot; its first cell is the row's place in the heap. */
export function dataRowOf(cells: readonly (string | Buffer | symbol | null)[]): Buffer {
  const parts = ['(0,1)', ...cells].flatMap((cell) => {
    const length = Buffer.alloc(4);
    const text = cell === null || typeof cell === 'symbol' ? null : Buffer.from(cell);
    length.writeInt32BE(text?.length ?? -1);
    return text === null ? [length] : [length, text];
  });
  const body = Buffer.concat(parts);
  const head = Buffer.from('D____cc');
  head.writeUInt32BE(body.length + 6, 1);
  head.writeUInt16BE(cells.length + 1, 5);
  return Buffer.concat([head, body]);
}

export function rowEvent(change: Partial<RowEvent>): RowEvent {
  return {
    op: 'c',
    flags: 0,
    epoch: 1,
    lsn: lsn(0x1_0000_0010n),
    ord: 0,
    committedAtMicros: 1_700_000_000_123_456n,
    xid: 755,
    atMs: 1_700_000_000_500,
    after: null,
    before: null,
    beforeIs: 'key',
    otherKey: null,
    totalOrder: 1,
    collectionOrder: 1,
    ...change,
  };
}

/** Runs of a property test: few in the unit project, more when SLUICE_TEST_RUNS says so. */
export function propertyRuns(base: number): number {
  return base * Number(process.env['SLUICE_TEST_RUNS'] ?? 1);
}
