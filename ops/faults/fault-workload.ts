/**
 * The workload of a kill-and-fault run, by a seed: inserts, updates that leave TOASTed values alone, deletes, key changes,
 * TRUNCATE, transactions over several tables, rollbacks and savepoints, rows that move between partitions, and DDL.
 */
import { seededRandom, type SeededRandom } from './seeded-random.ts';

export const FAULT_SCHEMA_SQL = `
create type mood as enum ('calm', 'busy');
create table wide (
  id bigint primary key, n int not null, note text, amount numeric(14,3), price numeric, weight float8, at timestamptz,
  tags text[], doc jsonb, raw bytea, mood mood
);
alter table wide alter column note set storage external;
alter table wide alter column raw set storage external;
create table pair (a int, b text, v text, big text, primary key (a, b));
alter table pair alter column big set storage external;
create table named (code text not null, v int, body text);
create unique index named_code on named (code);
alter table named replica identity using index named_code;
alter table named alter column body set storage external;
create table whole (id int primary key, v text, body text);
alter table whole replica identity full;
create table moved (id int, day date, v text, primary key (id, day)) partition by range (day);
create table moved_2024 partition of moved for values from ('2024-01-01') to ('2025-01-01');
create table moved_2025 partition of moved for values from ('2025-01-01') to ('2026-01-01');
`;

/** Rows that are there before the pipeline starts. */
export function loadSql(rows: number): string {
  return `
insert into wide select i, i % 7, case when i % 4 = 0 then repeat(md5(i::text), 120) end, i / 7.0, i * 0.1, i / 3.0,
  timestamptz '2024-02-29 23:59:59.999999+00' + i * interval '1 second', array['t' || i % 5, null, 'a "q", b'],
  jsonb_build_object('n', 12345678901234567890 + i), decode(repeat(md5(i::text), 90), 'hex'), 'calm'
  from generate_series(1, ${rows}) i;
insert into pair select i % 50, 'b' || i, 'v' || i, repeat(md5(i::text), 100) from generate_series(1, ${rows}) i;
insert into named select 'code' || i, i, repeat(md5(i::text), 100) from generate_series(1, ${rows / 2}) i;
insert into whole select i, 'v' || i, repeat(md5(i::text), 100) from generate_series(1, ${rows / 2}) i;
insert into moved select i, date '2024-01-01' + i % 700, 'v' || i from generate_series(1, ${rows / 2}) i;`;
}

export interface FaultWorkload {
  /** The statements of one transaction, its `begin` and end among them; DDL stands alone. */
  next(): readonly string[];
}

/** `session` keeps the new keys of parallel sessions apart; only session 0 changes tables. */
export function createFaultWorkload(seed: number, session: number): FaultWorkload {
  const random = seededRandom(seed * 31 + session);
  let serial = 0;
  let columns = 0;
  let tables = 0;
  let labels = 0;
  const fresh = (): number => 1_000_000 + session * 100_000_000 + (serial += 1);

  function ddl(): readonly string[] {
    switch (random.integer(8)) {
      case 0:
        columns += 1;
        return [`alter table ${random.pick(['wide', 'pair', 'whole'])} add column if not exists extra${columns} text`];
      case 1:
        columns += 1;
        return [`alter table wide add column if not exists filled${columns} int default ${random.integer(1_000)}`];
      case 2:
        return columns === 0
          ? ['vacuum full wide']
          : [`alter table wide drop column if exists extra${1 + random.integer(columns)}`];
      case 3:
        if (tables >= 3) return ['cluster pair using pair_pkey'];
        tables += 1;
        return [
          'begin',
          `create table if not exists later${tables} (id int primary key, v text)`,
          `insert into later${tables} select i, 'early' from generate_series(1, ${random.integer(200)}) i on conflict do nothing`,
          'commit',
        ];
      case 4:
        labels += 1;
        return [`alter type mood add value if not exists 'mood ${labels}'`];
      case 5:
        return ['vacuum full pair'];
      case 6:
        return ['truncate whole', `insert into whole values (${fresh()}, 'after truncate', null)`];
      default:
        return tables === 0
          ? ['analyze wide']
          : [`update later${tables} set v = 'later ${random.integer(1_000)}' where id % 3 = 0`];
    }
  }

  return {
    next() {
      if (session === 0 && random.integer(60) === 0) return ddl();
      const statements = ['begin'];
      const changes = 1 + random.integer(5);
      for (let i = 0; i < changes; i += 1) {
        if (random.integer(8) === 0)
          statements.push('savepoint s', ...change(random, fresh), 'rollback to savepoint s');
        statements.push(...change(random, fresh));
      }
      statements.push(random.integer(12) === 0 ? 'rollback' : 'commit');
      return statements;
    },
  };
}

function change(random: SeededRandom, fresh: () => number): readonly string[] {
  const id = 1 + random.integer(2_000);
  const n = random.integer(1_000_000);
  switch (random.integer(16)) {
    case 0:
    case 1:
      return [
        `insert into wide values (${fresh()}, ${n}, ${longText(random)}, ${n}.125, ${n}e-12, 'NaN', clock_timestamp(), '{}', '{"k": ${n}}', null, 'busy')`,
      ];
    case 2:
      return [
        `insert into wide (id, n, note) values (${id}, ${n}, ${longText(random)}) on conflict (id) do update set n = excluded.n`,
      ];
    case 3:
    case 4:
      return [`update wide set n = ${n} where id between ${id} and ${id + random.integer(20)}`];
    case 5:
      return [`update wide set id = ${fresh()} where id = ${id}`, `delete from wide where id = ${id + 1}`];
    case 6:
      return [`update wide set note = null, amount = -0.001, weight = '-0' where id = ${id}`];
    case 7:
      return [
        `insert into pair values (${n % 50}, 'new ${fresh()}', '', ${longText(random)})`,
        `update pair set v = 'u${n}' where a = ${id % 50} and b < 'b2'`,
      ];
    case 8:
      return [`update pair set b = 'moved ${fresh()}' where a = ${id % 50} and b = 'b${id}'`];
    case 9:
      return [`delete from pair where b = 'b${id}'`];
    case 10:
      return [
        `insert into named values ('n${fresh()}', ${n}, ${longText(random)})`,
        `update named set v = ${n} where code = 'code${id}'`,
      ];
    case 11:
      return [`update named set code = 'c${fresh()}' where code = 'code${id}'`];
    case 12:
      return [`update whole set v = 'w${n}' where id = ${id}`, `delete from whole where id = ${id + 1}`];
    case 13:
      return [`insert into whole values (${fresh()}, 'w', ${longText(random)})`];
    case 14:
      return [
        `update moved set day = day + case when day < '2025-01-01' then 366 else -365 end where id = ${id} and (day < '2024-12-30' or day > '2025-01-01')`,
        `insert into moved values (${fresh()}, date '2024-01-01' + ${n % 700}, 'm')`,
      ];
    default:
      return random.integer(25) === 0
        ? ['truncate named', `insert into named values ('t${fresh()}', 1, null)`]
        : [`delete from moved where id = ${id}`];
  }
}

/** Sometimes long enough to lie out of line. */
function longText(random: SeededRandom): string {
  const n = random.integer(1_000_000);
  return random.integer(2) === 0 ? `'s${n}'` : `repeat(md5('${n}'), ${80 + random.integer(60)})`;
}
