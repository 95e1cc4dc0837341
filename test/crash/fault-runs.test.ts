/**
 * Kill-and-fault runs by `sluice faults`: each starts a pipeline of its own, hurts it by the plan of its seed, and compares every
 * row afterwards. A few by default; SLUICE_TEST_RUNS for more, SLUICE_TEST_SEED for the first seed of a run to repeat.
 */
import { expect, it } from 'vitest';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { runSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? 3);
const SEED = process.env['SLUICE_TEST_SEED'] ?? '1';
const suite = await requires('kill-and-fault runs', 'pg18');
const onServers = await requires('kill-and-fault runs on Kafka and S3', 'pg18', 'kafka', 's3');

const folder = temporaryFolder('fault-runs');

async function drill(...args: string[]): Promise<void> {
  const { code, out, err } = await runSluice(
    ['faults', '--cache', cacheFolder(), '--keep', folder, '--json', ...args],
    {
      cwd: folder,
    },
  );
  expect(JSON.parse(out || '{}'), err).toMatchObject({ failed: [] });
  expect(code, err).toBe(0);
}

suite('kill-and-fault runs', () => {
  it(
    `${RUNS} runs from seed ${SEED}: source and lake are equal after each`,
    { timeout: 600_000 + RUNS * 200_000 },
    () => drill('--runs', String(RUNS), '--seed', SEED, '--faults', '4'),
  );

  it('refuses options that it cannot use', async () => {
    const refused = await runSluice(['faults', '--log', 'rabbit'], { cwd: folder });
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('embedded or kafka') });
    expect(await runSluice(['faults', '--runs', '0'], { cwd: folder })).toMatchObject({ code: 2 });
  });
});

onServers('kill-and-fault runs on Kafka and S3', () => {
  const runs = Math.max(1, Math.floor(RUNS / 3));
  it(`${runs} runs from seed ${SEED}`, { timeout: 600_000 + runs * 300_000 }, () =>
    drill('--runs', String(runs), '--seed', SEED, '--faults', '4', '--log', 'kafka', '--lake', 's3'),
  );
});
