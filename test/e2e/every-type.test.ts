/**
 * Every PostgreSQL type that users keep, through Kafka onto S3, by snapshot and by stream: the lake equals the source when
 * PostgreSQL itself says what the rows are, and delta-rs and DuckDB read what we read. Killed and started again on the way.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { openStore } from '../../lakehouse/store/open-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { freePort } from '../../ops/local/free-port.ts';
import { readWithDeltaRs, readWithDuckDb } from '../judges/judge.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { getKafka } from '../support/kafka.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { getS3, type TestBucket } from '../support/s3.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const suite = await requires('every type through Kafka onto S3', 'pg15', 'kafka', 's3', 'python');
const ROWS = Number(process.env['SLUICE_TEST_ROWS'] ?? 3_000);

const SCHEMA = `
create extension if not exists hstore;
create type mood as enum ('sad', 'x,y', 'happy "quoted"');
create type pair as (n int, t text);
create domain positive as int check (value > 0);
create table every_type (
  id bigint primary key, b bool, i2 int2, i4 int4, i8 int8, o oid, f4 float4, f8 float8, n numeric, n122 numeric(12,2), n380 numeric(38,0),
  m money, c char(10), vc varchar(20), t text, by bytea, d date, tm time, tmz timetz, ts timestamp, tz timestamptz, iv interval,
  u uuid, j json, jb jsonb, e mood, dom positive, comp pair, hs hstore, r int4range, nr numrange, tr tstzrange, inet_ inet, cidr_ cidr, mac macaddr,
  bits bit(5), vbits varbit, x xml, tsv tsvector, pt point, bx box, ai int[], at_ text[], an numeric(10,2)[], af float8[], ab bytea[], ad date[], az timestamptz[], ae mood[], abo bool[],
  big text, lsn pg_lsn
)`;

/** Rows from one generator, so that snapshot and stream carry the same kinds of values. */
const insert = (from: number, to: number): string => `
insert into every_type select i, i % 3 = 0, (i % 65536 - 32768)::int2, (i * 7919::int8 % 2147483647)::int4, 9007199254740993 + i, i, i / 3.0::float4,
  case i % 7 when 0 then 'NaN' when 1 then '-Infinity' when 2 then '-0' else i / 7.0 end::float8,
  case i % 5 when 0 then 1e-30 when 1 then 12345678901234567890123456789012345678.9 when 2 then 'NaN'::numeric else i / 9.0 end,
  (i % 100000) / 7.0, 99999999999999999999999999999999999999::numeric(38,0) - i, (i * 1.5)::numeric::money, 'c' || i % 10, left(repeat('é😀', i % 10), 20),
  case i % 9 when 0 then null when 1 then '' when 2 then E'line\\nbreak\\t"quote" \\\\ back' else 'text ' || i end, decode(md5(i::text), 'hex'),
  date '0001-01-01' + (i * 1217) % 3652058, time '00:00' + i * interval '1.000001 s', '23:59:59.999999+05:30'::timetz,
  case when i % 50 = 0 then timestamp '15000-01-01 00:00:00.000001' else timestamp '1970-01-01' + i * interval '37.000013 s' end,
  timestamptz '2024-03-10 02:30:00.123456+00' + i * interval '1 h 3 us', i * interval '1 month 2 days 00:00:03.5',
  gen_random_uuid(), ('{"a": ' || i || ', "a": 12345678901234567890}')::json, jsonb_build_object('n', 12345678901234567890::numeric, 'i', i),
  (array['sad','x,y','happy "quoted"'])[1 + i % 3]::mood, i, row(i, case when i % 2 = 0 then 'a,"b"' end)::pair, hstore('k' || i, case when i % 2 = 0 then null else 'v"' end),
  int4range(i, i + 5), numrange(i / 3.0, null), tstzrange('2024-01-01', '2024-01-02'), '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03',
  B'10101', B'101', '<a>x</a>'::xml, to_tsvector('english', 'the quick brown fox ' || i), point(i, 2.5), box(point(0,0), point(1, i)),
  case when i % 4 = 0 then null when i % 4 = 1 then '{}' else array[i, null, -1] end, array['a,b', E'c"d', E'e\\\\f', null, 'NULL', '', '{nested}'],
  array[1.50, i % 1000]::numeric(10,2)[], array['NaN', i / 3.0]::float8[], array['\\x00ff'::bytea, null], array[date '2024-02-29'], array[now()],
  array['x,y']::mood[], array[true, null, false], case when i % 100 = 0 then repeat(md5(i::text), 500) end, '16/B374D848'
from generate_series(${from}, ${to}) i`;

suite('every type through Kafka onto S3', () => {
  const folder = temporaryFolder('every-type');
  let database: TestDatabase;
  let bucket: TestBucket;
  let options: { cwd: string; env: Record<string, string> };
  let lake: string;

  beforeAll(async () => {
    database = await getPostgres({ major: 15 });
    bucket = await getS3();
    const { brokers, prefix } = await getKafka();
    lake = `${bucket.uri}/lake`;
    mkdirSync(join(folder, 'p'), { recursive: true });
    writeFileSync(
      join(folder, 'p/sluice.yaml'),
      `name: ${prefix}
source: {postgres: "\${PGURL}", tables: ["public.*"], snapshot: {chunkRows: 1000}}
log: {kind: kafka, brokers: ["${brokers.join('", "')}"], partitions: 2}
lake: {uri: ${lake}, s3: {endpoint: "${bucket.endpoint}", region: ${bucket.region}}}
stream: {trigger: 300ms}
http: {port: ${await freePort()}}
logging: {level: warn}
`,
    );
    options = { cwd: join(folder, 'p'), env: { PGURL: database.url, ...bucket.environment } };
    await database.query(SCHEMA);
    await database.query(insert(1, ROWS));
  });
  afterAll(async () => {
    await database.close();
  });

  it('equals the source after a snapshot, a stream of changes and kills', async () => {
    const first = await runSluice(['run', '--available-now'], options);
    expect(first.code, first.err).toBe(0);
    for (let kill = 0; kill < 3; kill += 1) {
      const child = startSluice(['run'], options);
      await database.query(insert(ROWS + kill * 500 + 1, ROWS + kill * 500 + 500));
      await database.query(`update every_type set i4 = i4 + 1, t = 'changed' where id % 17 = ${kill}`);
      await database.query(`update every_type set id = -id where id % 100 = ${kill} and id > 0`);
      await database.query(`delete from every_type where id % 31 = ${kill}`);
      await sleep(700 + kill * 400);
      child.kill('SIGKILL');
      await child.ended;
    }
    await database.query(`alter type mood add value 'new label'; `);
    await database.query(`update every_type set e = 'new label', ae = array['new label']::mood[] where id % 41 = 0`);
    const running = startSluice(['run'], options);
    try {
      const verified = await runSluice(['verify', '--json'], options);
      expect(JSON.parse(verified.out || '{}'), verified.out.slice(0, 3000) + verified.err).toMatchObject({
        equal: true,
      });
    } finally {
      running.kill('SIGTERM');
      expect((await running.ended).code).toBe(0);
    }
  });

  it('reads the same in delta-rs and DuckDB', async () => {
    const credentials = {
      accessKeyId: bucket.accessKeyId,
      secretAccessKey: bucket.secretAccessKey,
    };
    const store = openStore(`${lake}/public/every_type`, {
      endpoint: bucket.endpoint,
      region: bucket.region,
      forcePathStyle: true,
      credentials: () => Promise.resolve(credentials),
    });
    const snapshot = await openSnapshot(store);
    const ours = await canonicalRows(scanSchema(snapshot), scan(snapshot));
    const [{ count } = { count: '0' }] = await database.query('select count(*)::text as count from every_type');
    expect(ours.length).toBeGreaterThan(Number(count) * 0.7);
    const deltaRs = await readWithDeltaRs(`${lake}/public/every_type`, {
      storage: {
        AWS_ENDPOINT_URL: bucket.endpoint,
        AWS_ACCESS_KEY_ID: bucket.accessKeyId,
        AWS_SECRET_ACCESS_KEY: bucket.secretAccessKey,
        AWS_REGION: bucket.region,
        AWS_ALLOW_HTTP: 'true',
      },
    });
    expect(deltaRs).toEqual(ours);
    // DuckDB's S3 is an extension of its own; it reads a copy of the table on disk.
    const local = join(folder, 'copy');
    for await (const object of store.list('')) {
      const path = join(local, object.key);
      mkdirSync(join(path, '..'), { recursive: true });
      writeFileSync(path, await store.get(object.key));
    }
    expect(await readWithDuckDb(local)).toEqual(ours);
    await store.close();
  });
});
