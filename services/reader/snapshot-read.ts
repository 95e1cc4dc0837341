/**
 * Reads one chunk: rows as the server's text, in a REPEATABLE READ transaction whose snapshot is known. A plain SELECT in the
 * simple query protocol gives the output functions' text, the same that pgoutput sends (`col::text` would not: bool, char(n)
 * and inet have casts of their own). Fetched by cursor, so that wide rows stop it at the byte limit.
 */
import { CellKind, type Tuple } from '../log/tuple.ts';
import { createTuple, type MutableTuple } from './pgoutput/read-tuple.ts';
import { ReaderError } from './reader-error.ts';
import type { SourceSession } from './source.ts';
import { quoteIdent, quoteTable } from './sql-text.ts';
import { firstFetch, nextFetch } from './fetch-rows.ts';
import { createRowPieces, forEachRow, type RowPieces } from './row-pieces.ts';
import { parseTid } from './snapshot-ranges.ts';
import { parseSnapshot, type VisibleSet } from './visibility.ts';

export interface ChunkQuery {
  /** The heap that is read: the table, or a leaf partition of it. */
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  readonly columns: readonly string[];
  /** Of these, the ones that are read; the others' places hold NULL. Absent = all. */
  readonly taken?: ReadonlySet<string>;
  /** Conditions, joined with AND. */
  readonly conditions: readonly string[];
  readonly rowsMax: number;
  readonly bytesMax: number;
  /** False = rows of all partitions, by name of the root; then there is no ctid. */
  readonly only: boolean;
  /** What stands behind FROM where that is not the one heap. */
  readonly from?: string;
  /** A SELECT that gives keys which no row has, in the form of the chunk's rows: they are written as deletes. */
  readonly absent?: string;
}

/** Rows whose first cell is the ctid. */
export interface ChunkRows {
  readonly snapshot: VisibleSet;
  /** Of the heap when it was read; 0 when `only` is false. */
  readonly relfilenode: number;
  readonly rows: RowPieces;
  /** The limit was reached: rows behind this tid were not read. */
  readonly stoppedBehind: number | null;
  /** Rows of `absent`. */
  readonly absent: RowPieces;
}

/** Begins the chunk's transaction and gives its snapshot, before anything is read. */
export async function beginChunk(session: SourceSession): Promise<VisibleSet> {
  const [row] = await session.query(
    'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_current_snapshot() AS s',
  );
  return parseSnapshot(row?.['s'] ?? '');
}

export async function readChunk(session: SourceSession, query: ChunkQuery, snapshot: VisibleSet): Promise<ChunkRows> {
  const columns = query.columns
    .map((name) => (query.taken?.has(name) === false ? 'NULL' : quoteIdent(name)))
    .join(', ');
  const where = query.conditions.map((condition) => `(${condition})`).join(' AND ');
  const from = query.from ?? `ONLY ${quoteTable(query.schema, query.table)}`;
  const sql = `SELECT ${query.only ? 'ctid' : "'(0,0)'"}${columns === '' ? '' : `, ${columns}`} FROM ${from}${where === '' ? '' : ` WHERE ${where}`}`;
  // The file is asked for behind the DECLARE, which holds a lock on the heap: it cannot be rewritten any more.
  const [heap] = await session.query(
    `DECLARE chunk NO SCROLL CURSOR FOR ${sql}; ${query.only ? heapSql(query.oid) : 'SELECT 0 AS n'}`,
  );
  const relfilenode = Number(heap?.['n'] ?? 0);
  const rows = createRowPieces();
  let more = true;
  let full = false;
  const size = query.only ? { heap: Number(heap?.['heap'] ?? 0), toast: Number(heap?.['toast'] ?? 0) } : null;
  let wanted = firstFetch(size, query.bytesMax);
  while (more && !full) {
    const fetched = await session.rows(`FETCH ${wanted} FROM chunk`, rows.add);
    more = fetched === wanted;
    wanted = nextFetch(rows, query.bytesMax);
    full = rows.rows >= query.rowsMax || rows.bytes >= query.bytesMax;
  }
  const absent = createRowPieces();
  if (query.absent !== undefined) await session.rows(query.absent, absent.add);
  await session.query('CLOSE chunk; COMMIT');
  const stoppedBehind = more && full && query.only ? lastTid(rows) : null;
  return { snapshot, relfilenode, rows, stoppedBehind, absent };
}

export async function relfilenodeOf(session: SourceSession, oid: number): Promise<number> {
  const [row] = await session.query(relfilenodeSql(oid));
  return Number(row?.['n'] ?? 0);
}

function relfilenodeSql(oid: number): string {
  return `SELECT pg_relation_filenode(${oid}::int8::oid)::int8 AS n`;
}

/** Its file, its bytes, and those of its TOAST table. */
function heapSql(oid: number): string {
  const toast = `(SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = ${oid}::int8::oid AND reltoastrelid <> 0)`;
  return `${relfilenodeSql(oid)}, pg_relation_size(${oid}::int8::oid) AS heap, coalesce(${toast}, 0) AS toast`;
}

function lastTid(rows: RowPieces): number {
  let tid = 0;
  forEachRow({ pieces: rows.pieces.slice(-1) }, (bytes, start) => {
    tid = parseTid(bytes.toString('latin1', start + 6, start + 6 + bytes.readInt32BE(start + 2)));
  });
  return tid;
}

export function createChunkTuple(columns: number): MutableTuple {
  return createTuple(Math.max(columns, 1));
}

/** Where the columns behind the ctid of the DataRow bytes[start ..) begin. */
export function firstCell(bytes: Buffer, start: number, columns: number): number {
  const count = ((bytes[start] as number) << 8) | (bytes[start + 1] as number);
  if (count !== columns + 1) {
    throw new ReaderError('PGOUTPUT_INVALID', `a snapshot row of ${count - 1} columns where ${columns} were asked for`);
  }
  return start + 6 + bytes.readInt32BE(start + 2);
}

/** Fills `tuple` with the columns behind the ctid of the DataRow bytes[start .. end). */
export function fillTuple(tuple: MutableTuple, bytes: Buffer, start: number, columns: number): Tuple {
  const { kinds, starts, ends } = tuple;
  let at = firstCell(bytes, start, columns);
  tuple.bytes = bytes;
  for (let i = 0; i < columns; i++) {
    const length =
      ((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number);
    at += 4;
    if (length < 0) {
      kinds[i] = CellKind.null;
      continue;
    }
    kinds[i] = CellKind.text;
    starts[i] = at;
    at += length;
    ends[i] = at;
  }
  return tuple;
}
