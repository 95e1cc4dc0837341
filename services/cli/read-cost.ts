/**
 * What reading tables from the source costs: rows, bytes, minutes, the WAL that piles up meanwhile, and requests to the store.
 * One estimate for `plan`, `backfill`, `repair`, `replay` and `add`: from the catalog and the planner, nothing is read.
 */
import { listTables, matchesGlobs } from '../reader/catalog.ts';
import type { PostgresSource, SourceSession } from '../reader/source.ts';
import { refusalOf } from '../reader/table-selection.ts';
import type { Config } from '../runtime/config.ts';
import { formatBytes } from './print-columns.ts';
import { estimateRead, withReadOnly } from './source-estimate.ts';
import { walFacts } from './wal-facts.ts';

export interface ReadCost {
  readonly rows: number;
  readonly bytes: number;
  /** At an assumed speed; a hint, no promise. */
  readonly minutes: number;
  /** WAL that the source writes in that time, by its present rate: what the slot may hold back. */
  readonly walBytes: number;
}

/** Through log and merge. Assumptions, not measured here: machine, rows and store decide. The slower of the two counts. */
const ROWS_PER_SECOND = 25_000;
const BYTES_PER_SECOND = 8_000_000;

export function costOf(
  { rows, bytes }: { readonly rows: number; readonly bytes: number },
  walBytesPerSecond: number,
  bytesPerSecond: number | null = null,
): ReadCost {
  const byRate = Math.min(bytesPerSecond ?? BYTES_PER_SECOND, BYTES_PER_SECOND);
  const seconds = Math.max(rows / ROWS_PER_SECOND, bytes / byRate);
  return { rows, bytes, minutes: Math.ceil(seconds / 6) / 10, walBytes: Math.round(walBytesPerSecond * seconds) };
}

/** Null = all tables of the pipeline. */
export async function readCost(
  source: PostgresSource,
  config: Config,
  tables: readonly { readonly schema: string; readonly table: string }[] | null,
): Promise<ReadCost> {
  return withReadOnly(source, 'estimate', async (session) => {
    const sum = { rows: 0, bytes: 0 };
    for (const { schema, table } of tables ?? (await pipelineTables(session, config))) {
      const { rows, bytes } = await estimateRead(session, schema, table, null);
      sum.rows += rows;
      sum.bytes += bytes;
    }
    return costOf(sum, (await walFacts(session)).walBytesPerSecond);
  });
}

async function pipelineTables(
  session: SourceSession,
  config: Config,
): Promise<readonly { readonly schema: string; readonly table: string }[]> {
  const all = await listTables(session);
  return all.filter(
    (found) => matchesGlobs(config.source.tables, found.schema, found.table) && refusalOf(found) === null,
  );
}

export function describeCost({ rows, bytes, minutes, walBytes }: ReadCost): string {
  return `about ${rows} rows from ${formatBytes(bytes)}, ${minutes} minutes, ${formatBytes(walBytes)} of WAL meanwhile`;
}
