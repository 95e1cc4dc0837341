/**
 * Reading beside DuckDB, in one run: a merged table (data files, deletion vectors) scanned whole, by two columns, and by a
 * condition that statistics can prune, against the same questions to DuckDB on the same resolved files.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import { scan, type ScanOptions } from '../../lakehouse/read/scan.ts';
import { runSql } from '../../lakehouse/read/sql.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { openSnapshot, type Snapshot } from '../../lakehouse/table/snapshot.ts';
import { batchSource } from './merge-batches.ts';

export interface ScanBenchOptions {
  /** Rows loaded; default 1,000,000, in files of a tenth. */
  readonly tableRows?: number;
  /** Batches of 8,000 updates and 2,000 inserts on top; default 5. */
  readonly batches?: number;
  /** Measured rounds, of which the best counts; default 3. */
  readonly rounds?: number;
}

export interface ScanBenchResult {
  readonly question: 'all columns' | 'two columns' | 'one key';
  readonly tableRows: number;
  readonly files: number;
  readonly deletedRows: number;
  /** Rows that our scan handed over a second; for `one key`, of the files that were not pruned. */
  readonly rowsPerSecond: number;
  readonly scanMs: number;
  readonly duckDbMs: number;
  /** duckDbMs / scanMs: above 1 we are faster. DuckDB aggregates in native code on all cores; we hand columns over. */
  readonly ratio: number;
  readonly rssBytes: number;
}

const QUESTIONS: readonly {
  readonly question: ScanBenchResult['question'];
  readonly options: ScanOptions;
  readonly sql: string;
}[] = [
  {
    question: 'all columns',
    options: {},
    sql: 'SELECT max(id), max(customer), max(status), max(amount), max(quantity), max(note), max(updated_at), max(_sluice_lsn), max(_sluice_ord), max(_sluice_epoch) FROM t',
  },
  { question: 'two columns', options: { columns: ['id', 'amount'] }, sql: 'SELECT max(id), max(amount) FROM t' },
  {
    question: 'one key',
    options: { where: [{ path: ['id'], is: '=', value: 4_242n }] },
    sql: 'SELECT max(note) FROM t WHERE id = 4242',
  },
];

export async function benchScan(options: ScanBenchOptions = {}): Promise<ScanBenchResult[]> {
  const tableRows = options.tableRows ?? 1_000_000;
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-scan-'));
  try {
    const snapshot = await buildTable(folder, tableRows, options.batches ?? 5);
    const results: ScanBenchResult[] = [];
    for (const { question, options: asked, sql } of QUESTIONS) {
      const ours = await best(options.rounds ?? 3, () => scanOnce(snapshot, asked));
      const duckDbMs = await duckDbBest(snapshot, sql, options.rounds ?? 3);
      results.push({
        question,
        tableRows,
        files: snapshot.files.count,
        deletedRows: deletedRows(snapshot),
        rowsPerSecond: Math.round((ours.rows / ours.ms) * 1_000),
        scanMs: ours.ms,
        duckDbMs,
        ratio: duckDbMs / ours.ms,
        rssBytes: process.memoryUsage().rss,
      });
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function buildTable(folder: string, tableRows: number, batches: number): Promise<Snapshot> {
  const store = createFileStore(join(folder, 'table'));
  const table = await openMergeTable({ store, indexDir: join(folder, 'index') });
  const source = batchSource(1);
  const chunk = Math.max(1, Math.ceil(tableRows / 10));
  let number = 0n;
  const commit = async (batch: ReturnType<typeof source.load>): Promise<void> => {
    number += 1n;
    const txns = [{ appId: 'bench', version: number }];
    await table.commit(await table.prepare(batch), { txns, info: {}, timestampMs: Number(number) });
  };
  for (let loaded = 0; loaded < tableRows; loaded += chunk)
    await commit(source.load(Math.min(chunk, tableRows - loaded)));
  const updates = Math.min(8_000, Math.floor(tableRows / 2));
  for (let i = 0; i < batches; i++) await commit(source.mixed(tableRows, updates, Math.ceil(updates / 4)));
  await table.close();
  return openSnapshot(store);
}

function deletedRows(snapshot: Snapshot): number {
  let rows = 0n;
  for (const file of snapshot.files) rows += file.deletionVector?.cardinality ?? 0n;
  return Number(rows);
}

async function scanOnce(snapshot: Snapshot, options: ScanOptions): Promise<number> {
  let rows = 0;
  for await (const batch of scan(snapshot, options)) rows += batch.rowCount;
  return rows;
}

async function best(rounds: number, work: () => Promise<number>): Promise<{ rows: number; ms: number }> {
  let ms = Number.POSITIVE_INFINITY;
  let rows = 0;
  for (let i = 0; i < rounds; i++) {
    const start = performance.now();
    rows = await work();
    ms = Math.min(ms, performance.now() - start);
  }
  return { rows, ms };
}

/** The query alone: opening files and vectors is done before. */
async function duckDbBest(snapshot: Snapshot, sql: string, rounds: number): Promise<number> {
  return runSql(sql, { resolve: () => Promise.resolve(snapshot), memory: '1GB' }, async (run) => {
    const timed = await best(rounds, async () => {
      let rows = 0;
      for await (const part of (await run.rows()).rows) rows += part.length;
      return rows;
    });
    return timed.ms;
  });
}

export function formatScanBench(results: readonly ScanBenchResult[]): string {
  return results
    .map(
      (r) =>
        `${r.question.padEnd(12)} ${String(r.rowsPerSecond).padStart(10)} rows/s  ${r.scanMs.toFixed(0).padStart(6)} ms, ` +
        `DuckDB ${r.duckDbMs.toFixed(0).padStart(5)} ms, ratio ${r.ratio.toFixed(2)} ` +
        `(${r.files} files, ${r.deletedRows} deleted rows, ${Math.round(r.rssBytes / 1e6)} MB resident)\n`,
    )
    .join('');
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  process.stdout.write(formatScanBench(await benchScan()));
