/**
 * Judges: other engines read a table and say what is in it. Rows come back as canonical JSON texts (sorted), to compare with
 * `canonicalRows` of our own scan or with texts made from the source.
 *
 *     const suite = await requires('my tables', 'python');
 *     suite('…', () => { expect(await readWithDeltaRs(uri)).toEqual(await ourRows(uri)); });
 */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fetchSparkDelta,
  fetchSparkKafka,
  pythonWith,
  READER_PACKAGES,
  SPARK_PACKAGES,
} from '../../ops/local/python.ts';
import { cacheFolder } from '../support/cache.ts';
import { canonicalText } from '../support/canonical-rows.ts';

/** pyarrow turns what the engines hand over into exact texts. */
const JUDGE_PACKAGES = [...READER_PACKAGES, 'pyarrow==22.0.0'] as const;
const SCRIPT = join(import.meta.dirname, 'judge.py');
const WRITER = join(import.meta.dirname, 'write-delta.py');
const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

export interface JudgeOptions {
  readonly version?: number;
  /** delta-rs storage options for S3 (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, …). */
  readonly storage?: Readonly<Record<string, string>>;
  /** DuckDB statements before the scan (CREATE SECRET …). */
  readonly statements?: readonly string[];
}

export async function readWithDeltaRs(uri: string, options: JudgeOptions = {}): Promise<string[]> {
  return rowTexts(await runJudge(['rows', 'delta-rs', uri, JSON.stringify(options)]));
}

export async function readWithDuckDb(uri: string, options: JudgeOptions = {}): Promise<string[]> {
  const python = await pythonWith(cacheFolder(), JUDGE_PACKAGES);
  return rowTexts(
    await runJudge(['rows', 'duckdb', uri, JSON.stringify({ ...options, extension: extensionOf(python) })]),
  );
}

/** Rows of the change feed with `_change_type`, `_commit_version` and `_commit_timestamp` (that of the file or commit). */
export async function changesWithDeltaRs(
  uri: string,
  range: { readonly from: number; readonly to: number },
  options: JudgeOptions = {},
): Promise<string[]> {
  return rowTexts(await runJudge(['changes', 'delta-rs', uri, JSON.stringify({ ...options, ...range })]));
}

export interface WrittenTable {
  /** Default `error`: there is none yet. */
  readonly mode?: 'error' | 'append' | 'overwrite';
  /** Name and type: long, integer, string, boolean, decimal (12,2), timestamp. */
  readonly fields: readonly (readonly [string, string])[];
  /** Cells as text. */
  readonly rows: readonly (readonly (string | null)[])[];
}

/** A Delta table as delta-rs writes it. */
export async function writeWithDeltaRs(uri: string, table: WrittenTable): Promise<void> {
  const python = await pythonWith(cacheFolder(), JUDGE_PACKAGES);
  await run(python, [uri, JSON.stringify({ mode: 'error', ...table })], {}, WRITER);
}

/** Runs SQL statements in one Spark session with Delta; the rows of each, canonical and sorted. Tables as delta.`/path`. */
export async function withSpark(
  statements: readonly string[],
  settings: Readonly<Record<string, string>> = {},
): Promise<string[][]> {
  const python = await pythonWith(cacheFolder(), SPARK_PACKAGES);
  const folder = await fetchSparkDelta(cacheFolder());
  const jars = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.jar'))
    .map((name) => join(folder, name));
  const warehouse = await mkdtemp(join(tmpdir(), 'sluice-spark-'));
  try {
    const options = JSON.stringify({ statements, settings, jars, warehouse });
    const output = await run(python, ['spark', options], { SPARK_LOCAL_IP: '127.0.0.1', TZ: 'UTC' });
    return lines(output).map((line) => (JSON.parse(line) as string[]).map(canonicalText).sort());
  } finally {
    await rm(warehouse, { recursive: true, force: true });
  }
}

/** An unmodified Spark query on a Kafka topic goes on from a checkpoint folder, reads what is there, and ends: `[batch, partition, offset, value]` in order. */
export async function continueWithSpark(
  checkpoint: string,
  source: Readonly<Record<string, string>>,
): Promise<unknown[]> {
  const python = await pythonWith(cacheFolder(), SPARK_PACKAGES);
  const folder = await fetchSparkKafka(cacheFolder());
  const jars = readdirSync(folder).map((name) => join(folder, name));
  const warehouse = await mkdtemp(join(tmpdir(), 'sluice-spark-'));
  try {
    const options = JSON.stringify({ checkpoint, source, jars, warehouse });
    return lines(await run(python, ['continue', options], { SPARK_LOCAL_IP: '127.0.0.1', TZ: 'UTC' })).map(
      (line): unknown => JSON.parse(line),
    );
  } finally {
    await rm(warehouse, { recursive: true, force: true });
  }
}

async function runJudge(args: readonly string[]): Promise<string> {
  return run(await pythonWith(cacheFolder(), JUDGE_PACKAGES), args, {});
}

function run(
  python: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  script = SCRIPT,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { maxBuffer: OUTPUT_BYTES_MAX, env: { ...process.env, ...env } };
    execFile(python, [script, ...args], options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${args.slice(0, 2).join(' ')} failed: ${stderr.slice(-2_000)}`, { cause: error }));
    });
  });
}

const lines = (output: string): string[] => output.split('\n').filter((line) => line !== '');
const rowTexts = (output: string): string[] => lines(output).map(canonicalText).sort();

function extensionOf(python: string): string {
  const root = join(python, '../..');
  const found = readdirSync(root, { recursive: true, encoding: 'utf8' }).find((name) =>
    name.endsWith('delta.duckdb_extension'),
  );
  if (found === undefined) throw new Error('the DuckDB delta extension is not in its wheel');
  return join(root, found);
}
