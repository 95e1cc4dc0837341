/**
 * Merges of 10,000 rows (8,000 updates spread over the whole table, 2,000 inserts, seven columns) into tables of several
 * sizes, on a local disk; beside them, when a Python with `deltalake` is given, delta-rs on batches of the same shape.
 * `sluice bench merge` prints what this returns; run alone it prints the table itself.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { openMergeTable, type OwnedMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import type { MergeBatch, MergeResult } from '../../lakehouse/merge/merge.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { changeTable } from '../../lakehouse/upkeep/change-table.ts';
import { batchSource } from './merge-batches.ts';

export interface MergeBenchOptions {
  /** Rows in the table before the batches; default 100k, 1M, 10M. */
  readonly tableRows?: readonly number[];
  /** Measured batches; default 20, after WARM_UP more. */
  readonly batches?: number;
  /** An interpreter that can import deltalake and pyarrow: runs the same batches through delta-rs too. */
  readonly python?: string | null;
  /** Folder for the tables; default the system's temporary one. */
  readonly folder?: string;
  readonly progress?: (line: string) => void;
}

export interface MergeBenchResult {
  readonly tableRows: number;
  readonly batchRows: number;
  readonly rowsPerSecond: number;
  readonly batchMsMedian: number;
  /** CPU of the whole process, background threads too: on a busy machine a better measure than the clock. */
  readonly cpuMsPerBatch: number;
  readonly bytesPerBatch: number;
  readonly requestsPerBatch: number;
  readonly loadRowsPerSecond: number;
  /** Largest resident set seen after a batch. */
  readonly rssBytes: number;
  /** The largest at any moment, loading and background work too. */
  readonly rssPeakBytes: number;
  readonly indexResidentBytes: number | null;
  /** The same batches with the change data feed switched on, in the same table. */
  readonly changeDataFeed: {
    readonly rowsPerSecond: number;
    readonly cpuMsPerBatch: number;
    readonly bytesPerBatch: number;
  };
  /** delta-rs on the same shape of batches, or why it was not run. */
  readonly deltaRs: { readonly rowsPerSecond: number; readonly bytesPerBatch: number } | string;
  /** rowsPerSecond by delta-rs' own; null when it was not run. */
  readonly timesDeltaRs: number | null;
}

const SIZES = [100_000, 1_000_000, 10_000_000];
const UPDATES = 8_000;
const INSERTS = 2_000;
/** So many until the code that merges is compiled: a service has merged for hours. */
const WARM_UP = 20;
/** With keys all over a large table each of them reads nearly all pages of it: few are enough. */
const FEED_BATCHES = 3;
const LOAD_ROWS = 250_000;
const LOAD_FILES = 10;

export async function benchMerge(options: MergeBenchOptions = {}): Promise<MergeBenchResult[]> {
  const results: MergeBenchResult[] = [];
  for (const tableRows of options.tableRows ?? SIZES) results.push(await benchSize(tableRows, options));
  return results;
}

async function benchSize(tableRows: number, options: MergeBenchOptions): Promise<MergeBenchResult> {
  const folder = await mkdtemp(join(options.folder ?? tmpdir(), 'sluice-bench-merge-'));
  const counted = countRequests(createFileStore(join(folder, 'table')));
  const table = await openMergeTable({
    store: counted.store,
    indexDir: join(folder, 'index'),
  });
  const source = batchSource(tableRows);
  const batches = options.batches ?? 20;
  let version = 0n;
  const write = async (batch: MergeBatch): Promise<MergeResult> => {
    const prepared = await table.prepare(batch);
    const txns = [{ appId: 'bench', version: version++ }];
    return table.commit(prepared, { txns, info: {}, timestampMs: Date.now() });
  };
  try {
    const loadRowsPerSecond = await load(tableRows, write, (rows) => source.load(rows));
    options.progress?.(`${tableRows} rows loaded at ${loadRowsPerSecond} rows/s`);
    await table.settled();
    for (let i = 0; i < WARM_UP; i++) await write(source.mixed(tableRows, UPDATES, INSERTS));
    counted.reset();
    const next = (): MergeBatch => source.mixed(tableRows, UPDATES, INSERTS);
    const plain = await measure(batches, next, write);
    const requestsPerBatch = counted.count() / batches;
    const { rowsPerSecond } = plain;
    options.progress?.(`${tableRows} rows: ${rowsPerSecond} rows/s`);
    await table.settled();
    const set = { 'delta.enableChangeDataFeed': 'true' };
    await changeTable(await openSnapshot(counted.store), { kind: 'properties', set });
    const fed = await measure(Math.min(batches, FEED_BATCHES), next, write);
    options.progress?.(`${tableRows} rows with the change data feed: ${fed.rowsPerSecond} rows/s`);
    const deltaRs = await deltaRsOrWhyNot(options.python ?? null, folder, tableRows, batches);
    return {
      tableRows,
      batchRows: UPDATES + INSERTS,
      rowsPerSecond,
      batchMsMedian: plain.msMedian,
      cpuMsPerBatch: plain.cpuMsPerBatch,
      bytesPerBatch: plain.bytesPerBatch,
      requestsPerBatch: Math.round(requestsPerBatch * 10) / 10,
      loadRowsPerSecond,
      rssBytes: plain.rssBytes,
      rssPeakBytes: process.resourceUsage().maxRSS * 1024,
      indexResidentBytes: indexBytes(table),
      changeDataFeed: {
        rowsPerSecond: fed.rowsPerSecond,
        cpuMsPerBatch: fed.cpuMsPerBatch,
        bytesPerBatch: fed.bytesPerBatch,
      },
      deltaRs,
      timesDeltaRs: typeof deltaRs === 'string' ? null : Math.round((rowsPerSecond / deltaRs.rowsPerSecond) * 10) / 10,
    };
  } finally {
    await table.close();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Measured {
  readonly rowsPerSecond: number;
  readonly msMedian: number;
  readonly cpuMsPerBatch: number;
  readonly bytesPerBatch: number;
  readonly rssBytes: number;
}

/** Making the batches is not measured. */
async function measure(
  count: number,
  next: () => MergeBatch,
  write: (batch: MergeBatch) => Promise<MergeResult>,
): Promise<Measured> {
  const times: number[] = [];
  let cpuMs = 0;
  let bytes = 0;
  let rssBytes = 0;
  for (let i = 0; i < count; i++) {
    const batch = next();
    const cpu = process.cpuUsage();
    const from = performance.now();
    const done = await write(batch);
    times.push(performance.now() - from);
    const { user, system } = process.cpuUsage(cpu);
    cpuMs += (user + system) / 1000;
    bytes += done.bytesWritten;
    rssBytes = Math.max(rssBytes, process.memoryUsage().rss);
  }
  return {
    rowsPerSecond: Math.round(((UPDATES + INSERTS) * count * 1000) / times.reduce((a, b) => a + b, 0)),
    msMedian: Math.round(times.sort((a, b) => a - b)[times.length >> 1] ?? 0),
    cpuMsPerBatch: Math.round(cpuMs / count),
    bytesPerBatch: Math.round(bytes / count),
    rssBytes,
  };
}

const indexBytes = (table: OwnedMergeTable): number | null => table.indexStats()?.residentBytes ?? null;

async function load(
  tableRows: number,
  write: (batch: MergeBatch) => Promise<MergeResult>,
  next: (rows: number) => MergeBatch,
): Promise<number> {
  const step = Math.min(LOAD_ROWS, Math.ceil(tableRows / LOAD_FILES));
  let spentMs = 0;
  for (let loaded = 0; loaded < tableRows; loaded += step) {
    const batch = next(Math.min(step, tableRows - loaded));
    const from = performance.now();
    await write(batch);
    spentMs += performance.now() - from;
  }
  return Math.round((tableRows * 1000) / spentMs);
}

function countRequests(inner: ObjectStore): { store: ObjectStore; count(): number; reset(): void } {
  let requests = 0;
  const counted = <T>(work: () => T): T => {
    requests++;
    return work();
  };
  return {
    count: () => requests,
    reset: () => (requests = 0),
    store: {
      uri: inner.uri,
      get: (key, range) => counted(() => inner.get(key, range)),
      head: (key) => counted(() => inner.head(key)),
      list: (prefix, listing) => counted(() => inner.list(prefix, listing)),
      put: (key, body) => counted(() => inner.put(key, body)),
      putIfAbsent: (key, body) => counted(() => inner.putIfAbsent(key, body)),
      delete: (keys) => counted(() => inner.delete(keys)),
      close: () => inner.close(),
    },
  };
}

/** The same batches for delta-rs: ten files, keys spread over all, MERGE with update-all and insert-all. */
const DELTA_RS = `
import json, os, random, sys, time
import pyarrow as pa
from decimal import Decimal
from deltalake import DeltaTable, write_deltalake
path, rows, batches, updates, inserts, warm = sys.argv[1], *map(int, sys.argv[2:7])
status = ['new', 'paid', 'shipped', 'returned']
def table(ids, at):
    n = len(ids)
    return pa.table({
        'id': pa.array(ids, pa.int64()),
        'customer': pa.array([random.randrange(100000) for _ in range(n)], pa.int64()),
        'status': pa.array([status[i % 4] for i in range(n)], pa.string()),
        'amount': pa.array([Decimal(random.randrange(10**7)).scaleb(-2) for _ in range(n)], pa.decimal128(12, 2)),
        'quantity': pa.array([i % 50 for i in ids], pa.int32()),
        'note': pa.array([f'note {i * 7919 % 100003}' for i in ids], pa.string()),
        'updated_at': pa.array([1700000000000000 + at + i for i in range(n)], pa.timestamp('us', 'UTC')),
        '_sluice_lsn': pa.array([at] * n, pa.int64()),
        '_sluice_ord': pa.array([i * 2 for i in range(n)], pa.int32()),
        '_sluice_epoch': pa.array([1] * n, pa.int32()),
    })
random.seed(rows)
step = -(-rows // 10)
for f in range(0, rows, step):
    write_deltalake(path, table(range(f, min(f + step, rows)), 1), mode='append')
size = lambda: sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path) if f.endswith('.parquet'))
nxt, spent, written = rows, 0.0, 0
for b in range(warm + batches):
    ids = random.sample(range(rows), updates) + list(range(nxt, nxt + inserts))
    nxt += inserts
    source = table(ids, 4096 * (b + 2))
    before, start = size(), time.perf_counter()
    (DeltaTable(path).merge(source, 't.id = s.id', source_alias='s', target_alias='t')
        .when_matched_update_all('s._sluice_lsn > t._sluice_lsn').when_not_matched_insert_all().execute())
    if b >= warm:
        spent += time.perf_counter() - start
        written += size() - before
print(json.dumps({'rowsPerSecond': round((updates + inserts) * batches / spent), 'bytesPerBatch': round(written / batches)}))
`;
/** Its merges take more than a second each: fewer are enough. */
const DELTA_RS_BATCHES = 6;

/** Above this its table alone takes minutes to make, and each of its merges copies it. */
const DELTA_RS_ROWS_MAX = 1_000_000;

/** A python with deltalake that the tests' environments left in a cache folder; null when there is none. */
export async function cachedPython(cache: string): Promise<string | null> {
  const bin = process.platform === 'win32' ? 'Scripts' : 'bin';
  for (const name of await readdir(cache).catch(() => [])) {
    if (!name.startsWith('python-')) continue;
    const python = join(cache, name, 'venv', bin, 'python');
    const usable = promisify(execFile)(python, ['-c', 'import deltalake, pyarrow']);
    if (
      await usable.then(
        () => true,
        () => false,
      )
    )
      return python;
  }
  return null;
}

async function deltaRsOrWhyNot(
  python: string | null,
  folder: string,
  tableRows: number,
  batches: number,
): Promise<MergeBenchResult['deltaRs']> {
  if (python === null) return 'not run: no Python with deltalake and pyarrow (--python)';
  if (tableRows > DELTA_RS_ROWS_MAX) return `not run: above ${DELTA_RS_ROWS_MAX} rows`;
  return benchDeltaRs(python, folder, tableRows, batches);
}

async function benchDeltaRs(
  python: string,
  folder: string,
  tableRows: number,
  batches: number,
): Promise<Exclude<MergeBenchResult['deltaRs'], string>> {
  const counts = [tableRows, Math.min(batches, DELTA_RS_BATCHES), UPDATES, INSERTS, 2].map(String);
  const { stdout } = await promisify(execFile)(python, ['-c', DELTA_RS, join(folder, 'delta-rs'), ...counts]);
  return JSON.parse(stdout) as Exclude<MergeBenchResult['deltaRs'], string>;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const sizes = process.argv.slice(2).map(Number).filter(Number.isInteger);
  const python = process.env['SLUICE_BENCH_PYTHON'] ?? null;
  const results = await benchMerge({
    python,
    progress: console.error,
    ...(sizes.length > 0 ? { tableRows: sizes } : {}),
  });
  console.table(results);
}
