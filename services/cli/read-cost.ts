/**
 * What reading tables from the source costs: rows, bytes, minutes, the WAL that piles up meanwhile, and requests to the store.
 * One estimate for `plan`, `backfill`, `repair`, `replay` and `add`: from the catalog and the planner, nothing is read.
 */
import { listTables } from '../reader/catalog.ts';
import { matchesGlobs } from '../reader/table-globs.ts';
import type { PostgresSource, SourceSession } from '../reader/source.ts';
import { refusalOf } from '../reader/table-selection.ts';
import type { Config } from '../runtime/config.ts';
import { formatBytes } from './print-columns.ts';
import { speedOf, type ReadSpeed } from './read-speed.ts';
import { estimateRead, withReadOnly } from './source-estimate.ts';
import { walFacts } from './wal-facts.ts';

export interface ReadCost {
  readonly rows: number;
  readonly bytes: number;
  /** At `speed`; a hint, no promise. */
  readonly minutes: number;
  /** WAL that the source writes in that time, by its present rate: what the slot may hold back. */
  readonly walBytes: number;
  readonly speed: ReadSpeed;
}

export interface CostFactors {
  readonly walBytesPerSecond: number;
  readonly speed: ReadSpeed;
  /** Bytes a second that a person allows. */
  readonly rate?: number | null;
}

/** The slower of rows and bytes counts. */
export function costOf(
  { rows, bytes }: { readonly rows: number; readonly bytes: number },
  { walBytesPerSecond, speed, rate = null }: CostFactors,
): ReadCost {
  const byRate = Math.min(rate ?? speed.bytesPerSecond, speed.bytesPerSecond);
  const seconds = Math.max(rows / speed.rowsPerSecond, bytes / byRate);
  return {
    rows,
    bytes,
    minutes: Math.ceil(seconds / 6) / 10,
    walBytes: Math.round(walBytesPerSecond * seconds),
    speed,
  };
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
    const { walBytesPerSecond } = await walFacts(session);
    return costOf(sum, { walBytesPerSecond, speed: await speedOf(config) });
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

export function describeCost({ rows, bytes, minutes, walBytes, speed }: ReadCost): string {
  return `about ${rows} rows from ${formatBytes(bytes)}, ${minutes} minutes (${describeSpeed(speed)}), ${formatBytes(walBytes)} of WAL meanwhile`;
}

function describeSpeed({ rowsPerSecond, bytesPerSecond, measuredAtMs }: ReadSpeed): string {
  const speed = `${rowsPerSecond} rows or ${formatBytes(bytesPerSecond)} a second`;
  return measuredAtMs === null
    ? `at an assumed ${speed}`
    : `at ${speed}, measured here on ${new Date(measuredAtMs).toISOString().slice(0, 10)}`;
}
