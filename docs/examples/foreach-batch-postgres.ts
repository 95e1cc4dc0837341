/**
 * foreachBatch: each batch goes to a PostgreSQL table, exactly once.
 *
 *   MIRROR_URL=postgres://user:password@host/db          where to write
 *   stream.foreachBatch: ./docs/examples/foreach-batch-postgres.ts   in sluice.yaml
 *   NODE_OPTIONS='--import tsx' npx sluice run --config sluice.yaml  (TypeScript modules need the loader)
 *
 * The engine gives a batch again after a crash, with the same query id, batch id and rows. So the batch's number is written
 * in the transaction that writes its rows: where it stands already, the batch is done.
 */
import pg from 'pg';
import { isBefore } from '../../services/stream/sink.ts';
import type { StreamBatch } from '../../services/stream/sink.ts';
import { valuesJson } from '../../services/stream/sinks/row-json.ts';

const SETUP = `
  CREATE TABLE IF NOT EXISTS mirror_batches (
    query_id text, table_name text, batch_id bigint, PRIMARY KEY (query_id, table_name));
  CREATE TABLE IF NOT EXISTS mirror_rows (
    table_name text, key jsonb, row jsonb, PRIMARY KEY (table_name, key))`;
const CLAIM = `
  INSERT INTO mirror_batches VALUES ($1, $2, $3)
  ON CONFLICT (query_id, table_name) DO UPDATE SET batch_id = excluded.batch_id
  WHERE mirror_batches.batch_id < excluded.batch_id`;
// A column that the event did not carry (unchanged TOAST) is not in the new object, so `||` keeps the old value.
const UPSERT = `
  INSERT INTO mirror_rows VALUES ($1, $2, $3)
  ON CONFLICT (table_name, key) DO UPDATE SET row = mirror_rows.row || excluded.row`;
const TRUNCATE = 'DELETE FROM mirror_rows WHERE table_name = $1';
const DELETE = 'DELETE FROM mirror_rows WHERE table_name = $1 AND key = $2';

let pool: pg.Pool | null = null;

async function connect(): Promise<pg.PoolClient> {
  if (pool === null) {
    // oxlint-disable-next-line node/no-process-env -- a user's module has no other way to be configured
    pool = new pg.Pool({ connectionString: process.env['MIRROR_URL'], max: 4 });
    await pool.query(SETUP);
  }
  return pool.connect();
}

export async function foreachBatch(batch: StreamBatch, batchId: bigint): Promise<void> {
  const table = `${batch.schemaName}.${batch.tableName}`;
  const client = await connect();
  try {
    await client.query('BEGIN');
    const claim = await client.query(CLAIM, [batch.queryId, table, batchId]);
    if (claim.rowCount === 1) {
      // What was mirrored so far is older than any TRUNCATE that this batch brings.
      if (batch.truncate !== null) await client.query(TRUNCATE, [table]);
      for (const row of batch.rows()) {
        if (batch.truncate !== null && isBefore(row, batch.truncate)) continue;
        const key = valuesJson(Object.fromEntries(batch.keyColumns.map((name) => [name, row.values[name] ?? null])));
        if (row.op === 'delete') await client.query(DELETE, [table, key]);
        else await client.query(UPSERT, [table, key, valuesJson(row.values)]);
      }
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}

/** For a clean end of the process. */
export async function close(): Promise<void> {
  await pool?.end();
  pool = null;
}
