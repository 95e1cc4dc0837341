/**
 * Rows of the lake as a SQL relation of the source, so that PostgreSQL itself says which of them a user's condition selects: for
 * rows that the source does not have, nobody else can.
 */
import type { ColumnShape } from '../../log/event.ts';
import { quoteIdent, quoteLiteral } from '../../reader/sql-text.ts';

/** Columns that stand in the lake as they are in the source; a condition over others cannot be asked of the lake's rows. */
export function askableColumns(columns: readonly ColumnShape[]): readonly ColumnShape[] {
  return columns.filter((column) => column.replaced === undefined);
}

/** `(select …) as "table"`; one row a canonical row text, with its number as `_sluice_row`. */
export function lakeRowsSql(
  table: string,
  columns: readonly ColumnShape[],
  asText: ReadonlySet<string>,
  texts: readonly string[],
): string {
  const rows = texts.map((text, row) => {
    const cells = splitCells(text);
    const values = columns.flatMap((column, index) =>
      column.replaced === undefined ? [cellSql(column, cells[index] ?? null, asText.has(column.name))] : [],
    );
    return `(${row}, ${values.join(', ')})`;
  });
  const names = ['_sluice_row', ...askableColumns(columns).map(({ name }) => quoteIdent(name))].join(', ');
  return `(values ${rows.join(', ')}) as ${quoteIdent(table)}(${names})`;
}

/** Cells of a canonical row text; null for NULL. */
export function splitCells(text: string): (string | null)[] {
  const bytes = Buffer.from(text, 'utf8');
  const cells: (string | null)[] = [];
  let at = 0;
  while (at < bytes.length) {
    if (bytes[at] === 0x7e) {
      cells.push(null);
      at += 1;
      continue;
    }
    const colon = bytes.indexOf(0x3a, at);
    const end = colon + 1 + Number(bytes.toString('latin1', at, colon));
    cells.push(bytes.toString('utf8', colon + 1, end));
    at = end;
  }
  return cells;
}

function cellSql(column: ColumnShape, cell: string | null, heldAsText: boolean): string {
  const type = column.pgType;
  if (cell === null) return `null::${type}`;
  if (heldAsText) return `${quoteLiteral(cell)}::${type}`;
  const base = column.kind === 'domain' || column.kind === 'array' ? (column.baseType ?? 'text') : type;
  if (column.kind !== 'array' || !/^A\d/.test(cell)) return `${scalarSql(base, cell)}::${type}`;
  const elements = arrayElements(cell);
  if (elements.length === 0) return `'{}'::${type}`;
  return `array[${elements.map((element) => (element === null ? 'null' : scalarSql(base, element))).join(', ')}]::${type}`;
}

/** `A<count>` and so many frames: the count has no mark behind it, so it ends where that many follow. */
function arrayElements(cell: string): (string | null)[] {
  for (let digits = 1; /^\d+$/.test(cell.slice(1, 1 + digits)) && 1 + digits <= cell.length; digits += 1) {
    const elements = splitCells(cell.slice(1 + digits));
    if (elements.length === Number(cell.slice(1, 1 + digits))) return elements;
  }
  return [];
}

function scalarSql(type: string, cell: string): string {
  switch (type.replace(/\(.*$/, '').trim()) {
    case 'bytea':
      return `decode(${quoteLiteral(cell)}, 'hex')`;
    case 'real':
      return `'${floatText(Buffer.from(cell, 'hex').readFloatBE(0))}'::real`;
    case 'double precision':
      return `'${floatText(Buffer.from(cell, 'hex').readDoubleBE(0))}'::double precision`;
    default:
      return quoteLiteral(cell);
  }
}

const floatText = (value: number): string => (Object.is(value, -0) ? '-0' : String(value));
