/** One reused row object a table, filled from a JSON object's bytes; the gate's validators read its properties. */
import type { Cell, GateRow } from '../../contracts/engine/gate.ts';
import type { TableShape } from './event.ts';
import { CLOSE_OBJECT, eat, enter, more, OPEN_OBJECT, readName, skipSpace, type JsonCursor } from './json-cursor.ts';
import { readCell, readUnknownCell } from './cell-decode.ts';
import { wireFormOf, type WireForm } from './wire-kind.ts';

export interface RowColumns {
  readonly names: readonly string[];
  readonly forms: readonly WireForm[];
  /** `"name":` a column, compared byte by byte before any name is made a string. */
  readonly quoted: readonly Buffer[];
  readonly indexOf: ReadonlyMap<string, number>;
}

export interface RowCells {
  /** Columns of the shape in its order, undefined = absent; then columns that the shape does not know. */
  row: GateRow;
  /** Columns of the shape that the last object did not carry. */
  absent: number;
  /** Columns beyond the shape in the last object. */
  unknown: number;
  readonly columns: RowColumns;
  readonly filledIn: Uint32Array;
  turn: number;
}

/** No prototype: a column that is absent must not read as `toString` or `constructor` of Object. */
const NO_PROTOTYPE = Object.create(null) as object;
const RowObject = function RowObject() {} as unknown as new () => GateRow;
RowObject.prototype = NO_PROTOTYPE;

export function rowColumnsOf(shape: TableShape): RowColumns {
  const columns = shape.columns.filter(({ replaced }) => replaced !== 'drop');
  const names = columns.map((column) => column.name);
  return {
    names,
    forms: columns.map(wireFormOf),
    quoted: names.map((name) => Buffer.from(`${JSON.stringify(name)}:`)),
    indexOf: new Map(names.map((name, index) => [name, index])),
  };
}

export function createRowCells(columns: RowColumns): RowCells {
  return {
    row: emptyRow(columns),
    absent: columns.names.length,
    unknown: 0,
    columns,
    filledIn: new Uint32Array(columns.names.length),
    turn: 0,
  };
}

function emptyRow(columns: RowColumns): GateRow {
  const row = new RowObject();
  for (const name of columns.names) row[name] = undefined;
  return row;
}

/** Makes every column absent. */
export function clearCells(cells: RowCells): void {
  beginRow(cells);
  finishRow(cells, 0);
}

/** Reads one column's value; undefined = absent after all. */
export type CellReader = (cursor: JsonCursor, column: number) => Cell | undefined;

/** As `readCells`, for foreign forms: each known column's value goes through `read`. */
export function readCellsBy(cursor: JsonCursor, cells: RowCells, read: CellReader): void {
  beginRow(cells);
  const { columns, filledIn, turn, row } = cells;
  let filled = 0;
  if (enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) {
    do {
      const name = readName(cursor);
      const index = columns.indexOf.get(name);
      if (index === undefined) {
        setUnknown(row, name, readUnknownCell(cursor));
        cells.unknown++;
        continue;
      }
      const cell = read(cursor, index);
      if (cell === undefined) continue;
      row[name] = cell;
      if (filledIn[index] !== turn) filled++;
      filledIn[index] = turn;
    } while (more(cursor, CLOSE_OBJECT));
  }
  finishRow(cells, filled);
}

/** Reads the JSON object that is next into the row; everything it does not carry is absent. */
export function readCells(cursor: JsonCursor, cells: RowCells): void {
  beginRow(cells);
  const { columns, filledIn, turn, row } = cells;
  const { names, forms, quoted, indexOf } = columns;
  let filled = 0;
  let expected = 0;
  if (enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) {
    do {
      if (cursor.bytes[cursor.at] !== 0x22) skipSpace(cursor);
      // Columns come in the shape's order, less those left out: try the next one's bytes before making a string.
      if (expected < names.length && eat(cursor, quoted[expected] as Buffer)) {
        row[names[expected] as string] = readCell(cursor, forms[expected] as WireForm);
        if (filledIn[expected] !== turn) filled++;
        filledIn[expected] = turn;
        expected++;
        continue;
      }
      const name = readName(cursor);
      const index = indexOf.get(name);
      if (index === undefined) {
        setUnknown(row, name, readUnknownCell(cursor));
        cells.unknown++;
        continue;
      }
      row[name] = readCell(cursor, forms[index] as WireForm);
      if (filledIn[index] !== turn) filled++;
      filledIn[index] = turn;
      expected = index + 1;
    } while (more(cursor, CLOSE_OBJECT));
  }
  finishRow(cells, filled);
}

function beginRow(cells: RowCells): void {
  // Deleting properties would slow every later access, so a row that got unknown columns is left to the past.
  if (cells.unknown > 0) {
    cells.row = emptyRow(cells.columns);
    cells.unknown = 0;
  }
  if (cells.turn === 0xffff_ffff) {
    cells.filledIn.fill(0);
    cells.turn = 0;
  }
  cells.turn++;
}

function finishRow(cells: RowCells, filled: number): void {
  const { names } = cells.columns;
  cells.absent = names.length - filled;
  if (cells.absent === 0) return;
  for (let i = 0; i < names.length; i++) {
    if (cells.filledIn[i] !== cells.turn) cells.row[names[i] as string] = undefined;
  }
}

function setUnknown(row: GateRow, name: string, cell: Cell): void {
  row[name] = cell;
}
