/** A log whose retention has taken a table's beginning: refused by what is missing, and mended by the backfill that is named. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { createReplayPipeline, type ReplayPipeline } from './replay-pipeline.ts';

const suite = await requires('replay behind retention', 'pg18');

suite('retention that took the beginning', () => {
  const folder = temporaryFolder('replay-retention');
  let database: TestDatabase;
  let pipeline: ReplayPipeline;

  beforeAll(async () => {
    database = await getPostgres();
    await database.query(`
      create table r (id int primary key, n int);
      insert into r select i, i from generate_series(1, 700) i`);
    pipeline = await createReplayPipeline(folder, 'trimmed', database);
    await pipeline.start({ SLUICE_LOG_RETENTION: '1s' });
    await waitFor('the snapshot', () => pipeline.equal());
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('is refused with what is missing and the backfill for it; behind that a replay gives the same rows', async () => {
    // Released records go when the table moves on.
    for (let i = 0; i < 8; i++) {
      await database.query(`update r set n = n + 1 where id = ${i + 1}`);
      await sleep(1_000);
    }
    await waitFor('retention', async () => {
      await database.query('update r set n = n + 1 where id = 1');
      return (await pipeline.sluice('replay', 'r', '--dry-run')).code === 4;
    });
    await pipeline.expectEqual('r');
    for (const more of [[], ['--into', 'public.r_new'], ['--from', 'offset:0'], ['--from', 'lsn:0/1', '--dry-run']]) {
      const refused = await pipeline.sluice('replay', 'r', ...more);
      expect(refused.code, refused.err).toBe(4);
      expect(refused.err).toMatch(/SLU-7201 .*missing are offsets 0 to \d+ of partition 0/);
      expect(refused.err).toContain('sluice backfill public.r');
    }
    const rest = await pipeline.sluice('replay', 'r', '--from', 'earliest', '--json');
    expect(rest.code, rest.err).toBe(0);

    // The log is to keep what is read now: another retention holds for the topics that stand, too.
    await pipeline.stop();
    await pipeline.start({ SLUICE_LOG_RETENTION: '7d' });
    const filled = await pipeline.sluice('backfill', 'public.r');
    expect(filled.code, filled.err).toBe(0);
    await database.query(`update r set n = -n where id % 5 = 0; delete from r where id = 3`);
    await pipeline.expectEqual('r');
    const built = await pipeline.sluice('replay', 'r', '--into', 'public.r_new', '--diff', '--json');
    expect(built.json, built.err).toMatchObject({ equal: true, atOneLsn: true, rowsBefore: 699, rowsAfter: 699 });
    const again = await pipeline.sluice('replay', 'r', '--json');
    expect(again.code, again.err).toBe(0);
    const swapped = await pipeline.sluice('replay', 'r', '--into', 'public.r_new', '--swap', '--json');
    expect(swapped.json, swapped.err).toMatchObject({ kind: 'swap' });
    await pipeline.expectEqual('r');
  });
});
