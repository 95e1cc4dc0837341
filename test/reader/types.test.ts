/** The same value comes out of snapshot and stream, on every supported version, in the form that the wire table says. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { emptyDatabase } from './empty-database.ts';
import { openHarness, type Harness } from './harness.ts';

/** type, SQL value, wire form. */
const VALUES: readonly (readonly [string, string, unknown])[] = [
  ['bool', 'true', true],
  ['int2', '-32768', -32768],
  ['int4', '2147483647', 2147483647],
  ['oid', '4294967295', 4294967295],
  ['float4', `'NaN'`, 'NaN'],
  ['float8', `'-Infinity'`, '-Infinity'],
  ['float8', `'-0'`, -0],
  ['float8', '0.1', 0.1],
  ['numeric', '12345678901234567890123456789012345678.9', '12345678901234567890123456789012345678.9'],
  ['numeric(12,2)', `'NaN'`, 'NaN'],
  ['numeric', `'Infinity'`, 'Infinity'],
  ['numeric', '1e-30', '0.000000000000000000000000000001'],
  ['money', `'12.50'`, '$12.50'],
  ['char(5)', `'ab'`, 'ab   '],
  ['varchar(10)', `'a"b\\c'`, 'a"b\\c'],
  ['text', `E'tab\\tline\\nÄ🌼'`, 'tab\tline\nÄ🌼'],
  ['bytea', `'\\x00ff10'`, 'AP8Q'],
  ['date', `'0044-03-15 BC'`, '0044-03-15 BC'],
  ['date', `'infinity'`, 'infinity'],
  ['date', `'15000-01-01'`, '15000-01-01'],
  ['time', `'24:00:00'`, '24:00:00'],
  ['timetz', `'23:59:60+15:59'`, '24:00:00+15:59'],
  ['timestamp', `'2024-01-02 03:04:05.123456'`, '2024-01-02T03:04:05.123456'],
  ['timestamptz', `'2024-01-02 03:04:05.123456+02'`, '2024-01-02T01:04:05.123456Z'],
  ['timestamptz', `'0001-12-31 23:40:28+00 BC'`, '0001-12-31T23:40:28Z BC'],
  ['timestamptz', `'294276-12-31 23:59:59.999999+00'`, '294276-12-31T23:59:59.999999Z'],
  ['timestamp', `'-infinity'`, '-infinity'],
  ['interval', `'1 year 2 mons 3 days 04:05:06.789'`, '1 year 2 mons 3 days 04:05:06.789'],
  ['uuid', `'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'`, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ['json', `'{"a" : 1}'`, '{"a" : 1}'],
  ['jsonb', `'{"n":12345678901234567890}'`, '{"n": 12345678901234567890}'],
  ['mood', `'so, so'`, 'so, so'],
  ['positive', '7', 7],
  [
    'text[]',
    `array['a,b', 'c"d', 'e\\f', null, 'NULL', '', '{nested}']`,
    ['a,b', 'c"d', 'e\\f', null, 'NULL', '', '{nested}'],
  ],
  ['mood[]', `array['so, so', null]::mood[]`, ['so, so', null]],
  ['int4[]', `'{{1,2},{3,4}}'`, '{{1,2},{3,4}}'],
  ['int4[]', `'[0:2]={1,2,3}'`, '[0:2]={1,2,3}'],
  ['int8[]', `'{}'`, []],
  ['bool[]', `'{t,f,NULL}'`, [true, false, null]],
  ['timestamptz[]', `array['2024-01-02 03:04:05+00'::timestamptz]`, ['2024-01-02T03:04:05Z']],
  ['pair', `row(1, 'a,b', '')`, '(1,"a,b","")'],
  ['int4range', `'[1,5)'`, '[1,5)'],
  ['int4multirange', `'{[1,3),[5,7)}'`, '{[1,3),[5,7)}'],
  ['inet', `'10.0.0.1'`, '10.0.0.1'],
  ['cidr', `'10.0.0.0/8'`, '10.0.0.0/8'],
  ['macaddr', `'08:00:2b:01:02:03'`, '08:00:2b:01:02:03'],
  ['bit(3)', `B'101'`, '101'],
  ['varbit', `B'10'`, '10'],
  ['tsvector', `'a b'`, "'a' 'b'"],
  ['point', `'(1.5,2)'`, '(1.5,2)'],
  ['box[]', `array['(1,1),(0,0)'::box, '(2,2),(1,1)'::box]`, ['(1,1),(0,0)', '(2,2),(1,1)']],
  ['pg_lsn', `'16/B374D848'`, '16/B374D848'],
  ['"char"', `'x'`, 'x'],
  ['name', `'n'`, 'n'],
  ['int2vector', `'1 2'`, '1 2'],
  ['oidvector', `'3 4294967295'`, '3 4294967295'],
];

for (const major of [14, 15, 16, 17, 18] as const) {
  describe(`PostgreSQL ${major}`, () => {
    let db: TestDatabase;
    let harness: Harness;
    beforeAll(async () => {
      db = await getPostgres({ major });
    });
    afterAll(async () => {
      await db.close();
    });
    afterEach(async () => {
      await harness.close();
      await emptyDatabase(db);
    });

    it('has one form for each type, from snapshot and stream alike', async () => {
      await db.query(`drop schema if exists k cascade; create schema k; set search_path = k, public;
        create type mood as enum ('sad', 'so, so'); create domain positive as int check (value > 0);
        create type pair as (a int, b text, c text)`);
      const columns = VALUES.map(([type], i) => `c${i} ${type}`).join(', ');
      const values = VALUES.map(([, sql]) => sql).join(', ');
      await db.query(
        `create table types (id int8 primary key, ${columns}); insert into types values (9007199254740993, ${values}); insert into types (id) values (1)`,
      );
      harness = await openHarness(db, 'p', 1);
      const reader = await harness.start({ tables: ['k.*'] });
      await harness.snapshotsDone(reader);
      await db.query(`insert into types values (9007199254740992, ${values}); insert into types (id) values (2)`);
      await db.query(`alter type mood add value 'new label'; `);
      await db.query(`update types set c31 = 'new label' where id = 2`);
      await harness.caughtUp(reader);
      const events = await harness.events('types', 'k');
      expect(new Set(events.map((event) => event.key))).toEqual(
        new Set(['{"id":1}', '{"id":2}', '{"id":2}', '{"id":9007199254740992}', '{"id":9007199254740993}']),
      );
      for (const op of ['r', 'c']) {
        const event = events.find((each) => each.op === op && each.key?.startsWith('{"id":9') === true);
        const after = event?.value['after'] as Record<string, unknown>;
        const got = VALUES.map(([type], i) => [type, after[`c${i}`]]);
        expect(got).toEqual(VALUES.map(([type, , wire]) => [type, wire]));
        const empty = events.find((each) => each.op === op && each.key?.startsWith('{"id":9') === false)?.value[
          'after'
        ] as Record<string, unknown>;
        expect(Object.values(empty).filter((cell) => cell !== null)).toHaveLength(1);
      }
      expect(
        events
          .filter((event) => event.op === 'u')
          .map((event) => (event.value['after'] as Record<string, unknown>)['c31']),
      ).toEqual(['new label']);
      await db.query('drop schema k cascade');
    });

    it('keeps unchanged TOAST apart from NULL, carries key changes, and goes on after a restart', async () => {
      await db.query(`create table t (id int primary key, n int, body text); alter table t alter body set storage external;
        insert into t values (1, 1, repeat('x', 9000)), (2, 2, null)`);
      harness = await openHarness(db);
      const first = await harness.start();
      await harness.snapshotsDone(first);
      await db.query(
        'update t set n = 5; begin; savepoint a; insert into t values (7, 7, null); rollback to a; insert into t values (8, 8, null); commit',
      );
      await harness.caughtUp(first);
      await first.stop();
      await db.query('update t set id = 10 where id = 1; truncate t; insert into t values (3, 3, null)');
      const second = await harness.start();
      await harness.caughtUp(second);
      const events = await harness.events('t');
      const update = events.find((event) => event.op === 'u' && event.key === '{"id":1}');
      expect(update?.value['unchanged']).toEqual(['body']);
      expect(Object.keys(update?.value['after'] as object)).toEqual(['id', 'n']);
      expect(events.some((event) => event.key === '{"id":7}')).toBe(false);
      const moved = events.find((event) => event.key === '{"id":10}');
      expect(moved?.value['otherKey']).toEqual({ id: 1 });
      expect(moved?.value['unchanged']).toEqual(['body']);
      expect([...(await harness.rows('t')).keys()]).toEqual(['{"id":3}']);
    });
  });
}
