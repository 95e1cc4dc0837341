import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { emptyDatabase } from './empty-database.ts';
import { bothSides, openHarness, type Harness } from './harness.ts';

let db: TestDatabase;
let harness: Harness;

beforeAll(async () => {
  db = await getPostgres();
});
afterAll(async () => {
  await db.close();
});
afterEach(async () => {
  await harness.close();
  await emptyDatabase(db);
});

describe('reader', () => {
  // A topic of one partition takes the rows of a chunk as blocks.
  it.each([1, 2])(
    'snapshots what is there and streams what comes, in the order of the commits, %d partitions',
    async (partitions) => {
      await db.query(`create table t (id int primary key, n int, body text);
      insert into t select g, g, repeat('x', g % 50) from generate_series(1, 5000) g;
      alter table t alter column body set storage external`);
      harness = await openHarness(db, 'p', partitions);
      const reader = await harness.start();
      await db.query('insert into t values (6001, 1, null)');
      await db.query(
        'begin; update t set n = n + 1 where id <= 100; delete from t where id between 200 and 210; update t set id = 7000 where id = 300; commit',
      );
      await db.query("begin; insert into t values (9999, 1, 'rolled back'); rollback");
      await harness.snapshotsDone(reader);
      await db.query("update t set body = repeat('y', 9000) where id = 5");
      await db.query('update t set n = 77 where id = 5');
      await harness.caughtUp(reader);
      const { source, log } = await bothSides(db, harness, 't', ['id', 'n', 'body']);
      expect(log).toEqual(source);
      expect(log.length).toBe(5000 - 11 + 1);
      const events = await harness.events('t');
      expect(events.some((event) => (event.value['unchanged'] as string[] | undefined)?.includes('body'))).toBe(true);
      const halves = events.filter((event) => event.value['otherKey'] !== undefined);
      expect(halves.map((event) => event.op).sort()).toEqual(['c', 'd']);
      await reader.stop();
      expect(reader.status().phase).toBe('ended');
    },
  );
});
