/** A source table's rows in the gate's cell forms: PostgreSQL's text goes the way of the wire, so that a rule sees what the gate would. */
import type { CatalogColumn, CatalogTable } from '../../../contracts/engine/catalog.ts';
import type { Cell, GateRow } from '../../../contracts/engine/gate.ts';
import { createByteSink } from '../../log/byte-sink.ts';
import { readCell } from '../../log/cell-decode.ts';
import { writeCell } from '../../log/cell-encode.ts';
import { createJsonCursor, openCursor } from '../../log/json-cursor.ts';
import { wireFormOf } from '../../log/wire-kind.ts';
import type { SourceSession } from '../../reader/source.ts';
import { quoteIdent } from '../../reader/sql-text.ts';

const ROWS_AT_ONCE = 2000;

/** By a cursor in a read-only transaction: memory holds some rows. The session is in use until the end. */
export async function* sourceRows(
  session: SourceSession,
  { table, relation }: { readonly table: CatalogTable; readonly relation: string },
  columns: readonly string[],
): AsyncGenerator<GateRow> {
  const wanted = table.columns.filter(({ name }) => columns.includes(name));
  const readers = wanted.map((column) => ({ name: column.name, read: cellReader(column) }));
  const list = wanted.length === 0 ? '1' : wanted.map(({ name }) => quoteIdent(name)).join(', ');
  await session.query('begin transaction read only');
  try {
    await session.query(`declare contract_rows no scroll cursor for select ${list} from ${relation}`);
    for (;;) {
      const rows = await session.query(`fetch ${ROWS_AT_ONCE} from contract_rows`);
      for (const row of rows) {
        const cells: GateRow = {};
        for (const { name, read } of readers) cells[name] = read(row[name] ?? null);
        yield cells;
      }
      if (rows.length < ROWS_AT_ONCE) return;
    }
  } finally {
    await session.query('rollback');
  }
}

function cellReader({
  name,
  pgType,
  baseType,
  kind,
  enumLabels,
  notNull,
  keyPosition,
}: CatalogColumn): (text: string | null) => Cell {
  const shape = { name, pgType, baseType, kind, enumLabels, notNull, keyPosition, typeOid: 0, typeModifier: -1 };
  const form = wireFormOf(shape);
  const sink = createByteSink(4096);
  const cursor = createJsonCursor();
  return (text) => {
    if (text === null) return null;
    const bytes = Buffer.from(text);
    sink.at = 0;
    sink.start = 0;
    writeCell(sink, form, bytes, 0, bytes.length);
    openCursor(cursor, sink.bytes.subarray(sink.start, sink.at));
    return readCell(cursor, form);
  };
}
