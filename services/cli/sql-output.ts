/**
 * A query's result as text. Exact in every form: CSV and table print all digits; in JSON a 64-bit integer or a decimal is a
 * number when a double holds it exactly, and a string of all its digits when it does not. Zero keeps its sign.
 */
import type { ResultColumn, SqlCell, SqlResult } from '../../lakehouse/read/duckdb.ts';
import { ExactNumber } from '../../lakehouse/table/lossless-json.ts';
import { createTextPieces, type Write } from './text-pieces.ts';

const EXACT = /^(?:U?(?:BIG|HUGE)INT|BIGNUM|VARINT|DECIMAL\(\d+,\d+\))$/;

/** The array of row objects, a row a line. Two columns of one name get `_1`, `_2`, … */
export async function writeJson(result: SqlResult, write: Write): Promise<void> {
  const names = uniqueNames(result.columns).map((name) => JSON.stringify(name));
  const exact = result.columns.map(({ type }) => EXACT.test(type));
  let first = true;
  const pieces = createTextPieces(write);
  for await (const rows of result.rows) {
    for (const row of rows) {
      const members = row.map((cell, i) => `${names[i] ?? '""'}:${exact[i] === true ? number(cell) : jsonText(cell)}`);
      const full = pieces.add(`${first ? '[' : ',\n '}{${members.join(',')}}`);
      if (full !== null) await full;
      first = false;
    }
  }
  await pieces.add(first ? '[]\n' : ']\n');
  await pieces.end();
}

/** JSON.stringify, but for the sign of zero, and for numbers that may have more digits than a double holds. */
function jsonText(cell: SqlCell): string {
  if (Object.is(cell, -0)) return '-0';
  if (cell instanceof ExactNumber) return number(cell.text);
  if (typeof cell !== 'object' || cell === null) return JSON.stringify(cell);
  if (isList(cell)) return `[${cell.map(jsonText).join(',')}]`;
  const members = Object.entries(cell).map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`);
  return `{${members.join(',')}}`;
}

const isList = (cell: SqlCell): cell is readonly SqlCell[] => Array.isArray(cell);

function number(cell: SqlCell): string {
  if (typeof cell !== 'string') return jsonText(cell);
  return isExactDouble(cell) ? cell : JSON.stringify(cell);
}

/** Fifteen significant digits always come back from a double; of more, only what is the double itself. */
function isExactDouble(digits: string): boolean {
  const significant = digits.replace(/[-.]/g, '').replace(/^0+/, '');
  if (significant.length <= 15) return true;
  return !digits.includes('.') && Number.isSafeInteger(Number(digits));
}

function uniqueNames(columns: readonly ResultColumn[]): string[] {
  const used = new Set<string>();
  return columns.map(({ name }) => {
    let unique = name;
    for (let i = 1; used.has(unique); i++) unique = `${name}_${i}`;
    used.add(unique);
    return unique;
  });
}

/** RFC 4180 with a header; NULL is an empty field, the empty text is `""`. */
export async function writeCsv(result: SqlResult, write: Write): Promise<void> {
  const pieces = createTextPieces(write);
  await pieces.add(`${result.columns.map(({ name }) => csvField(name)).join(',')}\n`);
  for await (const rows of result.rows) {
    for (const row of rows) {
      const full = pieces.add(`${row.map((cell) => (cell === null ? '' : csvField(plain(cell)))).join(',')}\n`);
      if (full !== null) await full;
    }
  }
  await pieces.end();
}

const csvField = (text: string): string =>
  text === '' || /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

const plain = (cell: SqlCell): string => (typeof cell === 'string' ? cell : jsonText(cell));

/** Rows whose widths decide those of the columns; later wider cells push their line out. */
const MEASURED_ROWS = 1_000;
const CELL_WIDTH_MAX = 60;

/** Aligned columns, numbers to the right, and the number of rows below. */
export async function writeTable(result: SqlResult, write: Write): Promise<void> {
  const header = result.columns.map(({ name }) => name);
  const right = result.columns.map(({ type }) => /INT|DECIMAL|DOUBLE|FLOAT/.test(type) && !/[[(]\D/.test(type));
  let widths: number[] | null = null;
  let held: string[][] = [];
  let count = 0;
  const line = (cells: readonly string[]): string => {
    const padded = cells.map((cell, i) =>
      right[i] === true ? cell.padStart(widths?.[i] ?? 0) : cell.padEnd(widths?.[i] ?? 0),
    );
    return `${padded.join('  ').trimEnd()}\n`;
  };
  const pieces = createTextPieces(write);
  const flush = async (): Promise<void> => {
    if (widths === null) {
      widths = header.map((name, i) =>
        Math.min(CELL_WIDTH_MAX, Math.max(name.length, ...held.map((row) => (row[i] ?? '').length))),
      );
      await pieces.add(line(header) + line(widths.map((width) => '-'.repeat(width))));
    }
    for (const row of held) {
      const full = pieces.add(line(row));
      if (full !== null) await full;
    }
    held = [];
  };
  for await (const rows of result.rows) {
    for (const row of rows) held.push(row.map((cell) => (cell === null ? 'NULL' : plain(cell).replace(/\s+/g, ' '))));
    count += rows.length;
    if (widths !== null || held.length >= MEASURED_ROWS) await flush();
  }
  if (widths === null || held.length > 0) await flush();
  await pieces.add(`(${count} ${count === 1 ? 'row' : 'rows'})\n`);
  await pieces.end();
}
