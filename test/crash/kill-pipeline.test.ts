/**
 * SIGKILL at every named point and at random moments of a running workload; after each, the pipeline starts again, and at
 * the end source and lake are compared by row contents. The ledger is checked by the pipeline itself: a batch whose ledger
 * does not add up does not commit.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededRandom } from '../../services/cli/demo/random.ts';
import { SHOP_SCHEMA_SQL } from '../../services/cli/demo/shop-schema.ts';
import { loadShop, runWorkload } from '../../services/cli/demo/shop-workload.ts';
import { FAILPOINTS } from '../../services/runtime/failpoints.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const KILLS = Number(process.env['SLUICE_TEST_KILLS'] ?? 50);

let database: TestDatabase;

beforeAll(async () => {});

interface Pipeline {
  readonly cwd: string;
  readonly env: Record<string, string>;
}

function makePipeline(name: string): Pipeline {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  writeFileSync(
    join(cwd, 'sluice.yaml'),
    [
      `name: ${name}`,
      'source: {postgres: "${PGURL}", tables: ["public.*"], snapshot: {chunkRows: 500}}',
      'stream: {trigger: 100ms, maxOffsetsPerTrigger: 2000}',
      'http: {port: 0}',
      'logging: {level: warn}',
    ].join('\n'),
  );
  return { cwd, env: { PGURL: database.url } };
}

const folder = temporaryFolder('kill');

/** A demo verify needs no running service: `run --available-now` brings the lake to now, and verify reads consistent.json. */
async function expectEqual(pipeline: Pipeline): Promise<void> {
  const caughtUp = await runSluice(['run', '--available-now'], pipeline);
  expect(caughtUp.err).not.toMatch(/"level":"error"/);
  expect(caughtUp.code, caughtUp.err).toBe(0);
  const running = startSluice(['run'], { ...pipeline, env: { ...pipeline.env, SLUICE_HTTP_PORT: String(port) } });
  try {
    const verified = await runSluice(['verify', '--json'], {
      ...pipeline,
      env: { ...pipeline.env, SLUICE_HTTP_PORT: String(port) },
    });
    const report = JSON.parse(verified.out === '' ? '{}' : verified.out) as { equal?: boolean };
    expect(report, verified.err).toMatchObject({ equal: true });
  } finally {
    running.kill('SIGTERM');
    const { code, err } = await running.ended;
    expect(code, err).toBe(0);
  }
}

let port = 0;

/** The snapshot and checkpoints come round once in so many batches; these points are passed within seconds. */
const MUST_PASS: string[] = [
  'after-log-append',
  'before-slot-ack',
  'after-slot-ack',
  'after-offset-log-write',
  'after-data-files',
  'before-table-commit',
  'after-table-commit',
];

describe('a killed pipeline', () => {
  beforeAll(async () => {
    const { freePort } = await import('../../ops/local/free-port.ts');
    port = await freePort();
    database = await getPostgres();
    await database.query(SHOP_SCHEMA_SQL);
    await loadShop(database, 1500);
  });
  afterAll(async () => {
    await database.close();
  });

  it('recovers from SIGKILL at every named point', async () => {
    const pipeline = makePipeline('points');
    const passed: string[] = [];
    for (const [session, point] of FAILPOINTS.entries()) {
      const stop = new AbortController();
      const child = startSluice(['run'], { ...pipeline, env: { ...pipeline.env, SLUICE_FAILPOINT: `${point}:2` } });
      const workload = runWorkload(database, {
        seed: session + 1,
        transactions: 100_000,
        signal: stop.signal,
        rows: 1500,
        violationEvery: 40,
        session,
        pace: () => sleep(2),
      });
      // A point that must be passed is waited for on the slowest machine; the others come round once in so many batches.
      const patienceMs = MUST_PASS.includes(point) ? 60_000 : 8_000;
      const ended = await Promise.race([child.ended, sleep(patienceMs).then(() => null)]);
      stop.abort();
      await workload;
      if (ended === null) {
        child.kill('SIGKILL');
        await child.ended;
      } else {
        expect(ended.signal, `${point}: ${ended.err}`).toBe('SIGKILL');
        passed.push(point);
      }
    }
    expect(passed).toEqual(expect.arrayContaining(MUST_PASS));
    await expectEqual(pipeline);
  });

  it(`recovers from ${KILLS} SIGKILLs at random moments`, async () => {
    const seed = Number(process.env['SLUICE_TEST_SEED'] ?? 20);
    const random = seededRandom(seed);
    const pipeline = makePipeline('random');
    const stop = new AbortController();
    const workload = runWorkload(database, {
      seed,
      transactions: 1_000_000,
      signal: stop.signal,
      rows: 1500,
      violationEvery: 60,
      session: 90,
      pace: () => sleep(3),
    });
    try {
      for (let kill = 0; kill < KILLS; kill += 1) {
        const child = startSluice(['run'], pipeline);
        const ended = await Promise.race([child.ended, sleep(300 + random.below(2_200)).then(() => null)]);
        if (ended !== null)
          expect(ended.signal, `seed ${seed}, kill ${kill}: it ended by itself: ${ended.err}`).toBe('SIGKILL');
        child.kill('SIGKILL');
        await child.ended;
      }
    } finally {
      stop.abort();
      await workload;
    }
    await expectEqual(pipeline);
  });
});
