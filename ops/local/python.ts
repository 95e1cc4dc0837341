/** Other engines that read our tables in tests: Python packages by exact version in a virtual environment of their own. */
import { createHash } from 'node:crypto';
import { resolve, join } from 'node:path';
import { fetchOnce } from './fetch-once.ts';
import { fetchJars } from './maven.ts';
import { runTool } from './toolchain.ts';

/** delta-rs, and DuckDB with its delta extension (versions of the two must match). */
export const READER_PACKAGES = ['deltalake==1.6.6', 'duckdb==1.5.5', 'duckdb-extension-delta==1.5.5'] as const;
export const SPARK_PACKAGES = ['pyspark==4.1.4'] as const;
const SPARK_DELTA = 'io.delta:delta-spark_4.1_2.13:4.4.0';
const SPARK_KAFKA = 'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1';

/** Path of a python that has these packages, made on first use. @throws LocalServerError SERVER_UNAVAILABLE */
export async function pythonWith(cache: string, packages: readonly string[] = READER_PACKAGES): Promise<string> {
  const digest = createHash('sha256').update(packages.join('\n')).digest('hex').slice(0, 10);
  const bin = process.platform === 'win32' ? 'Scripts' : 'bin';
  // The environment is moved once it is whole: its `python` finds its packages beside itself, only its scripts keep the old path.
  const folder = await fetchOnce(resolve(cache), `python-${digest}`, async (staging) => {
    await runTool('python3', ['-m', 'venv', join(staging, 'venv')], { what: 'making a Python environment' });
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages];
    await runTool(join(staging, 'venv', bin, 'python'), pip, { what: `fetching ${packages.join(', ')}` });
  });
  return join(folder, 'venv', bin, 'python');
}

/** Folder with Delta's jars for the Spark of SPARK_PACKAGES. @throws LocalServerError SERVER_UNAVAILABLE */
export async function fetchSparkDelta(cache: string): Promise<string> {
  return fetchJars(resolve(cache), 'spark-delta-4.4.0', [SPARK_DELTA]);
}

/** Folder with the jars of Spark's Kafka source, for the same Spark. @throws LocalServerError SERVER_UNAVAILABLE */
export async function fetchSparkKafka(cache: string): Promise<string> {
  return fetchJars(resolve(cache), 'spark-kafka-4.1.1', [SPARK_KAFKA]);
}
