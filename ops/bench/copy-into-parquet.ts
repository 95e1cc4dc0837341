/** The baseline of load.ts: the table of `PGURL` by `COPY` into the pipe of the folder given, and from there into Parquet by DuckDB. */
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';

const [folder = ''] = process.argv.slice(2);
const pipe = join(folder, 'rows.csv');
const source = await openPostgresSource(() => parseConnection(process.env['PGURL'] ?? ''));
const session = await source.session('bench');
const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
const copied = session.query(`copy public.bench to '${pipe}' (format csv)`);
await duckdb.run(`copy (select * from read_csv('${pipe}', header = false, auto_detect = false, delim = ',', quote = '"', escape = '"',
  columns = {'id': 'BIGINT', 'a': 'INTEGER', 'b': 'BIGINT', 'c': 'VARCHAR', 'd': 'VARCHAR', 'e': 'DECIMAL(12,2)',
    'f': 'TIMESTAMPTZ', 'g': 'BOOLEAN', 'h': 'DOUBLE', 'i': 'VARCHAR'})) to '${join(folder, 'rows.parquet')}' (format parquet)`);
await copied;
duckdb.closeSync();
await session.close();
