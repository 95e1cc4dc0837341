/**
 * Chunks of one table side by side, under load and killed: every key changes once, so nothing that comes later mends a row
 * that a chunk wrote over its change.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { bothSides, foldEvents, openHarness, type Harness } from './harness.ts';

const ROWS = 12_000;
const TRANSACTIONS = 600;
const KILLS = 16;

const suite = await requires('chunks side by side', 'pg18');

suite('chunks side by side', () => {
  let db: TestDatabase;
  let harness: Harness;

  beforeAll(async () => {
    db = await getPostgres();
    await db.query(`create table t (id int primary key, n int not null, body text);
      alter table t alter column body set storage external`);
    await db.query(`insert into t select g, 0, repeat(md5(g::text), 80) from generate_series(1, ${ROWS}) g`);
    harness = await openHarness(db);
  });
  afterAll(async () => {
    await harness?.close();
    await db?.close();
  });

  it('write no row over its change, whichever of them is killed', async () => {
    let changed = 0;
    const load = (async () => {
      for (; changed < TRANSACTIONS; changed++) {
        await db.query(`update t set n = n + 1 where id % ${TRANSACTIONS} = ${changed}`);
        await sleep(10);
      }
    })();
    const kills: string[] = [];
    for (let kill = 0; kill < KILLS; kill++) {
      let left = 1 + (kill % 3);
      const reader = await harness.start({
        snapshotParallel: 2,
        snapshotChunkRows: 500,
        failpoint(name) {
          if (name !== 'during-snapshot-chunk' || --left !== 0) return;
          kills.push(name);
          throw new Error('killed');
        },
      });
      let ended = false;
      const whole = (): boolean => reader.status().tables[0]?.phase === 'streaming';
      const end = reader.done.catch(() => undefined).finally(() => (ended = true));
      while (!ended && !whole()) await sleep(10);
      await reader.stop();
      await end;
      if (whole()) break;
    }
    const last = await harness.start({ snapshotParallel: 2, snapshotChunkRows: 500 });
    await load;
    await harness.snapshotsDone(last);
    await harness.caughtUp(last);
    // What the ingest does for a row that moved between two chunks.
    const { homeless } = foldEvents(await harness.events('t'));
    await last.fetchKeys(
      'public',
      't',
      homeless.map((key) => [String((JSON.parse(key) as { id: number }).id)]),
    );
    const { source, log } = await bothSides(db, harness, 't', ['id', 'n', 'body']);
    const rows = new Set(source);
    expect({ kills: kills.length > 0, changed }).toEqual({ kills: true, changed: TRANSACTIONS });
    expect(log.filter((row) => !rows.has(row)).map((row) => row.slice(0, 40))).toEqual([]);
    expect(log.length).toBe(ROWS);
  });
});
