/**
 * Answers that come late, and failures that pass: what the server was asked is compared with what the reader knew when it
 * asked, and a lock that was not to be had for once stops nothing. Each is held up at the port, so that it happens every time.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LogError, type EventLog } from '../../services/log/log.ts';
import type { LogOffset } from '../../services/log/position.ts';
import { progressTopic } from '../../services/log/topics.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import type { ReaderHandle } from '../../services/reader/reader-options.ts';
import type { ReaderError } from '../../services/reader/reader-error.ts';
import type { PostgresSource, TextRow } from '../../services/reader/source.ts';
import { serverError } from '../../services/reader/server-error.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';
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

type Ask = () => Promise<readonly TextRow[]>;

/** A source whose sessions of a purpose ask by `around`. */
function asking(purpose: string, around: (sql: string, ask: Ask) => Promise<readonly TextRow[]>): PostgresSource {
  return {
    ...harness.source,
    async session(wanted) {
      const session = await harness.source.session(wanted);
      if (wanted !== purpose) return session;
      return Object.assign(Object.create(session) as typeof session, {
        query: (sql: string) => around(sql, () => session.query(sql)),
      });
    },
  };
}

interface Hook {
  run(): Promise<void>;
}
/** A source whose heartbeat runs the hook before such a statement is asked, or when its answer is there. */
const beforeLook = (statement: RegExp, hook: Hook): PostgresSource =>
  asking('heartbeat', async (sql, ask) => {
    if (statement.test(sql)) await hook.run();
    return ask();
  });
const behindLook = (statement: RegExp, hook: Hook): PostgresSource =>
  asking('heartbeat', async (sql, ask) => {
    const rows = await ask();
    if (statement.test(sql)) await hook.run();
    return rows;
  });

const LISTS_TABLES = /relpersistence/;
const ASKS_PUBLICATION = /pg_publication_tables/;

const tableOf = (reader: ReaderHandle, name: string) => reader.status().tables.find(({ table }) => table === name);

async function expectEqual(table: string, columns: readonly string[]): Promise<number> {
  const { source, log } = await bothSides(db, harness, table, columns);
  expect(log).toEqual(source);
  return source.length;
}

/** Something that happens once, when it was asked for. */
function once(): { arm(action: () => Promise<unknown>): void; run(): Promise<void>; readonly armed: boolean } {
  let next: (() => Promise<unknown>) | null = null;
  return {
    arm: (action) => void (next = action),
    async run() {
      const action = next;
      next = null;
      await action?.();
    },
    get armed() {
      return next !== null;
    },
  };
}

/** Stands until it is opened. */
function gate(): { readonly passed: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const passed = new Promise<void>((resolve) => void (open = resolve));
  return { passed, open: () => open() };
}

/** A transaction of another session that stays open until it is told to end. */
async function openTransaction(): Promise<{ end(): Promise<void> }> {
  const session = await harness.source.session('another client');
  await session.query('BEGIN; SELECT pg_current_xact_id()');
  return {
    async end() {
      await session.query('COMMIT');
      await session.close();
    },
  };
}

describe('late answers', () => {
  it('a standby takes over the tables of now, and not those of when it began to wait', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    const first = await harness.start();
    await harness.snapshotsDone(first);
    const second = await harness.start();
    expect(second.status().phase).toBe('standby');
    await db.query('create table later (id int primary key); insert into later values (1)');
    await waitFor('the new table', () => tableOf(first, 'later')?.phase === 'streaming');
    await harness.caughtUp(first);
    await first.stop();
    await waitFor('the takeover', () => second.status().phase === 'streaming');
    await db.query('insert into later values (2)');
    await harness.caughtUp(second);
    expect(tableOf(second, 'later')).toMatchObject({ phase: 'streaming', reason: null });
    expect(await expectEqual('later', ['id'])).toBe(2);
  });

  it('a table that is replaced or dropped while the catalog is looked at has its own name, and stops nothing else', async () => {
    await db.query(
      'create table t (id int primary key); create table gone (id int primary key); create table rest (id int)',
    );
    await db.query('alter table rest add primary key (id)');
    harness = await openHarness(db);
    const between = once();
    // A look asks for the tables and for the publication: this happens behind the first of the two.
    const source = behindLook(/pg_publication_tables|relpersistence/, between);
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    between.arm(() =>
      db.query(`drop table gone; alter table t rename to t_old; create table t (id int primary key);
        alter publication pub_p set table t_old, rest`),
    );
    const stateOf = (name: string): string | undefined => tableOf(reader, name)?.reason?.state;
    await waitFor('both stops', () => stateOf('t') !== undefined && stateOf('gone') !== undefined);
    expect([stateOf('t'), stateOf('gone'), stateOf('rest')]).toEqual(['TABLE_REPLACED', 'TABLE_MISSING', undefined]);
    await db.query('insert into rest values (1)');
    await harness.caughtUp(reader);
    expect(await expectEqual('rest', ['id'])).toBe(1);
  });

  it('a position that passes the WAL end while the heartbeat waits for the answer is no older copy of the database', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    const look = once();
    // The answer to a heartbeat's question for the WAL's end arrives when the reader has gone beyond it.
    const source = behindLook(/pg_current_wal_lsn/, look);
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    let answered = 0;
    for (const id of [1, 2]) {
      look.arm(async () => {
        await db.query(`insert into t values (${id})`);
        await harness.caughtUp(reader);
        await db.query(`insert into t values (${id + 10})`);
        await harness.caughtUp(reader);
        answered = id;
      });
      await waitFor('a late answer', () => answered === id || reader.status().phase === 'stopped');
      expect(reader.status().stopped).toBeNull();
      await db.query(`insert into t values (${id + 20})`);
      await harness.caughtUp(reader);
    }
    expect(await expectEqual('t', ['id'])).toBe(6);
  });

  it('rows that are fetched by their key hide no rewrite of the table from the heartbeat', async () => {
    await db.query('create table t (id int primary key); insert into t values (1), (2), (3)');
    harness = await openHarness(db);
    const look = once();
    const source = beforeLook(ASKS_PUBLICATION, look);
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    // Before the heartbeat looks again, somebody asks for one row of the table that was rewritten.
    look.arm(async () => {
      await db.query('alter table t add column n int default 7');
      await reader.fetchRows('public', 't', 'id = 1');
    });
    await waitFor('the look', () => !look.armed);
    await harness.snapshotsDone(reader);
    await waitFor('the other rows', async () => {
      await expectEqual('t', ['id', 'n']);
      return true;
    });
  });

  it('rows that are fetched by their key hide no change of that key from the heartbeat', async () => {
    await db.query('create table t (id int primary key, k int not null unique); insert into t values (1, 10)');
    harness = await openHarness(db);
    const look = once();
    let fetched: unknown = null;
    const source = beforeLook(ASKS_PUBLICATION, look);
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    look.arm(async () => {
      await db.query('alter table t drop constraint t_pkey; alter table t add primary key (k)');
      fetched = await reader.fetchRows('public', 't', 'id = 1').catch((error: unknown) => error);
    });
    await waitFor('the stop', () => tableOf(reader, 't')?.reason?.state === 'KEY_CHANGED');
    expect(fetched).toMatchObject({ code: 'TABLE_KEY_MISMATCH' });
    expect(await harness.events('t')).toHaveLength(1);
  });

  it('a table that is published again while the heartbeat waits for the list of tables does not stop again', async () => {
    await db.query('create table t (id int primary key); create table rest (id int primary key)');
    harness = await openHarness(db);
    const look = once();
    let looks = 0;
    const source = asking('heartbeat', async (sql, ask) => {
      const rows = await ask();
      if (LISTS_TABLES.test(sql)) {
        await look.run();
        looks++;
      }
      return rows;
    });
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    await db.query('alter publication pub_p drop table t; insert into t values (1)');
    await waitFor('the stop', () => tableOf(reader, 't')?.phase === 'stopped');
    look.arm(async () => {
      await reader.resnapshot('public', 't', true);
      await waitFor('the table', () => tableOf(reader, 't')?.phase === 'streaming');
    });
    await waitFor('the look', () => !look.armed);
    const seen = looks;
    await waitFor('another look', () => looks > seen + 1);
    expect(tableOf(reader, 't')).toMatchObject({ phase: 'streaming', reason: null });
    await db.query('insert into t values (2)');
    await harness.caughtUp(reader);
    expect(await expectEqual('t', ['id'])).toBe(2);
  });

  it('a table that two ask for at once is taken once', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    const reader = await harness.start({ tables: ['public.t'], newTables: 'ignore' });
    await harness.snapshotsDone(reader);
    await db.query('create table later (id int primary key); insert into later values (1)');
    await Promise.all([reader.addTable('public', 'later'), reader.addTable('public', 'later')]);
    await harness.snapshotsDone(reader);
    await db.query('insert into later values (2)');
    await harness.caughtUp(reader);
    expect((await harness.events('later')).map(({ op }) => op)).toEqual(['r', 'c']);
  });

  it('a table that is let go is not taken again by a heartbeat that looks meanwhile', async () => {
    await db.query('create table t (id int primary key); create table gone (id int primary key)');
    harness = await openHarness(db);
    const drop = once();
    let looks = 0;
    const slow = asking('reader', async (sql, ask) => {
      if (/DROP TABLE/.test(sql)) await drop.run();
      return ask();
    });
    const counted = asking('heartbeat', async (sql, ask) => {
      const rows = await ask();
      if (LISTS_TABLES.test(sql)) looks++;
      return rows;
    });
    const source: PostgresSource = {
      ...harness.source,
      session: (purpose) => (purpose === 'heartbeat' ? counted : slow).session(purpose),
    };
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    drop.arm(async () => {
      const seen = looks;
      await waitFor('two looks', () => looks > seen + 2);
    });
    await reader.removeTable('public', 'gone');
    expect(tableOf(reader, 'gone')?.phase).toBe('removed');
    expect(await db.query("select tablename from pg_publication_tables where pubname = 'pub_p'")).toEqual([
      { tablename: 't' },
    ]);
  });

  it('a table that is to be read again while it is planned is cleared once, by the newer plan', async () => {
    await db.query('create table t (id int primary key); insert into t values (1)');
    harness = await openHarness(db);
    const clearComes = gate();
    const olderIsDone = gate();
    let [plans, clears] = [0, 0];
    const source: PostgresSource = {
      ...harness.source,
      async session(purpose) {
        const session = await harness.source.session(purpose);
        if (purpose !== 'snapshot') return session;
        let older = false;
        return Object.assign(Object.create(session) as typeof session, {
          async query(sql: string) {
            if (LISTS_TABLES.test(sql) && ++plans === 2) {
              older = true;
              await clearComes.passed;
            }
            if (/'clear:/.test(sql)) {
              if (++clears === 2) olderIsDone.open();
              clearComes.open();
              await olderIsDone.passed;
            }
            return session.query(sql);
          },
          close() {
            if (older) olderIsDone.open();
            return session.close();
          },
        });
      },
    };
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    const first = reader.resnapshot('public', 't', true);
    await waitFor('the first plan', () => plans === 2);
    await reader.resnapshot('public', 't', true);
    await first;
    await harness.snapshotsDone(reader);
    expect(clears).toBe(1);
    expect(await expectEqual('t', ['id'])).toBe(1);
  });

  it('a replaced table that is to be read again does not stop by what is written to it before its turn', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    const reader = await harness.start();
    await harness.snapshotsDone(reader);
    await db.query('begin; alter table t rename to t_old; create table t (id int primary key); commit');
    await waitFor('the stop', () => tableOf(reader, 't')?.phase === 'stopped');
    const other = await openTransaction();
    await reader.resnapshot('public', 't', true);
    await db.query('insert into t values (1)');
    await harness.caughtUp(reader);
    expect(tableOf(reader, 't')).toMatchObject({ phase: 'snapshotting', reason: null });
    await other.end();
    await harness.snapshotsDone(reader);
    await db.query('insert into t values (2)');
    await harness.caughtUp(reader);
    expect(tableOf(reader, 't')).toMatchObject({ phase: 'streaming', reason: null });
    expect(await expectEqual('t', ['id'])).toBe(2);
  });

  it('a table that was read again with its new key does not stop at the first event that has it', async () => {
    await db.query('create table t (id int primary key, k int not null unique); insert into t values (1, 10)');
    harness = await openHarness(db);
    const reader = await harness.start();
    await harness.snapshotsDone(reader);
    await db.query('insert into t values (2, 20)');
    await harness.caughtUp(reader);
    await db.query('alter table t drop constraint t_pkey; alter table t add primary key (k)');
    await waitFor('the stop', () => tableOf(reader, 't')?.reason?.state === 'KEY_CHANGED');
    await reader.resnapshot('public', 't', true);
    await harness.snapshotsDone(reader);
    await db.query('insert into t values (3, 30)');
    await harness.caughtUp(reader);
    expect(tableOf(reader, 't')).toMatchObject({ phase: 'streaming', reason: null });
    expect(await expectEqual('t', ['id', 'k'])).toBe(3);
  });
});

describe('failures that pass', () => {
  it('a first append whose answer is lost loses neither slot nor publication', async () => {
    await db.query('create table t (id int primary key); insert into t values (1)');
    harness = await openHarness(db);
    let lost = 0;
    const log: EventLog = {
      ...harness.log,
      async writer(identity) {
        const writer = await harness.log.writer(identity);
        return {
          ...writer,
          async append(records, controls) {
            const next = await writer.append(records, controls);
            if (lost++ === 0) throw new LogError('LOG_UNAVAILABLE', 'a commit got no answer');
            return next;
          },
        };
      },
    };
    const reader = await harness.start({ log });
    await waitFor('another append', () => lost > 1 || reader.status().phase === 'stopped');
    await harness.snapshotsDone(reader);
    expect(await expectEqual('t', ['id'])).toBe(1);
  });

  it('offsets that a first append left when it was cut off are no lost state', async () => {
    await db.query('create table t (id int primary key); insert into t values (1)');
    harness = await openHarness(db);
    const topic = progressTopic(harness.name);
    const { reader: real } = harness.log;
    let asked = false;
    // As a Kafka topic shows itself that has had aborted transactions only.
    const log: EventLog = {
      ...harness.log,
      reader: {
        ...real,
        async bounds(name, how) {
          if (name !== topic || asked) return real.bounds(name, how);
          return new Map([[0, { earliest: 0n as LogOffset, end: 2n as LogOffset }]]);
        },
        read(name, ...range) {
          if (name !== topic || asked) return real.read(name, ...range);
          asked = true;
          return (async function* () {})();
        },
      },
    };
    const reader = await harness.start({ log });
    expect(asked).toBe(true);
    await harness.snapshotsDone(reader);
    expect(await expectEqual('t', ['id'])).toBe(1);
  });

  it('a new table whose topic the log refuses just now is taken later, and stops nothing', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    let refusals = 2;
    const log: EventLog = {
      ...harness.log,
      admin: {
        ...harness.log.admin,
        ensureTopics(topics) {
          if (Object.keys(topics).some((topic) => topic.endsWith('.later')) && refusals-- > 0)
            return Promise.reject(new LogError('LOG_TOPIC_REFUSED', 'replication factor 3 is larger than 2 brokers'));
          return harness.log.admin.ensureTopics(topics);
        },
      },
    };
    const reader = await harness.start({ log });
    await harness.snapshotsDone(reader);
    await db.query('create table later (id int primary key); insert into later values (1)');
    await waitFor(
      'the new table',
      () => {
        if (reader.status().phase === 'stopped') throw new Error(JSON.stringify(reader.status().stopped));
        return tableOf(reader, 'later')?.phase === 'streaming';
      },
      { deadlineMs: 20_000 },
    );
    await harness.caughtUp(reader);
    expect(await expectEqual('later', ['id'])).toBe(1);
  });

  const refusal = (sqlstate: string, purpose: string): ReaderError =>
    serverError({ sqlstate, message: 'not now' }, purpose);

  it.each(['55P03', '40P01', '57014', '53200'])('a heartbeat that meets %s is asked again', async (sqlstate) => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    const fault = once();
    const source = beforeLook(LISTS_TABLES, fault);
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    fault.arm(() => Promise.reject(refusal(sqlstate, 'heartbeat')));
    await waitFor('the fault', () => !fault.armed);
    await db.query('insert into t values (1)');
    await waitFor('the reader', () => ['streaming', 'stopped'].includes(reader.status().phase));
    await harness.caughtUp(reader);
    expect(await expectEqual('t', ['id'])).toBe(1);
  });

  it('limits that are made for short requests bind no session of ours', async () => {
    harness = await openHarness(db);
    const options = '-c lock_timeout=1 -c statement_timeout=1 -c transaction_timeout=1';
    const source = await openPostgresSource(() => ({ ...parseConnection(db.url), options }));
    const session = await source.session('limits');
    const shown = await session.query(
      "select string_agg(name || '=' || setting, ' ' order by name) as s from pg_settings where name in ('lock_timeout', 'statement_timeout', 'transaction_timeout')",
    );
    await session.close();
    expect(shown).toEqual([{ s: 'lock_timeout=0 statement_timeout=0 transaction_timeout=0' }]);
  });

  it('a chunk that meets a deadlock is read again, and its table does not stop', async () => {
    await db.query('create table t (id int primary key); insert into t select generate_series(1, 10)');
    harness = await openHarness(db);
    const fault = once();
    fault.arm(() => Promise.reject(refusal('40P01', 'snapshot')));
    const source = asking('snapshot', async (sql, ask) => {
      if (/DECLARE chunk/.test(sql)) await fault.run();
      return ask();
    });
    const reader = await harness.start({ source });
    await waitFor('an end', () => tableOf(reader, 't')?.phase !== 'snapshotting');
    expect(tableOf(reader, 't')).toMatchObject({ phase: 'streaming', reason: null });
    await harness.caughtUp(reader);
    expect(await expectEqual('t', ['id'])).toBe(10);
  });

  it('a publication that cannot be altered for a lock is altered later, and its table is not left to its owner', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    const fault = once();
    const source = asking('reader', async (sql, ask) => {
      if (/^ALTER PUBLICATION .* ADD TABLE/.test(sql)) await fault.run();
      return ask();
    });
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    fault.arm(() => Promise.reject(refusal('40P01', 'reader')));
    await db.query('create table later (id int primary key)');
    await waitFor('the new table', () => tableOf(reader, 'later')?.phase === 'streaming');
  });

  it('a reader whose name for the primary leads to a standby for a while comes back when that is promoted', async () => {
    await db.query('create table t (id int primary key)');
    harness = await openHarness(db);
    let standbys = 0;
    const source = asking('reader', async (sql, ask) => {
      const [row, ...rest] = await ask();
      if (!/inRecovery/.test(sql) || standbys === 0) return row === undefined ? rest : [row, ...rest];
      standbys--;
      return [{ ...row, j: JSON.stringify({ ...JSON.parse(row?.['j'] ?? '{}'), inRecovery: true }) }];
    });
    const reader = await harness.start({ source });
    await harness.snapshotsDone(reader);
    standbys = 2;
    await db.query(
      'select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database() and active',
    );
    await waitFor('both refusals', () => standbys === 0);
    await db.query('insert into t values (1)');
    await harness.caughtUp(reader);
    expect(await expectEqual('t', ['id'])).toBe(1);
  });
});
