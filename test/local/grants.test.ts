/** The grants as a server takes them: the role can do what Sluice does, and no more. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { grantsSql } from '../../ops/sql/grants.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import { findPublication } from '../../services/reader/publication.ts';
import { getPostgres } from '../support/postgres.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';

for (const major of [14, 18] as const) {
  const suite = await requires(`grants on PostgreSQL ${major}`, `pg${major}`);
  suite(`grants on PostgreSQL ${major}`, () => {
    let database: TestDatabase;
    // Roles belong to the whole server: the name must be this test's own, and may be ugly.
    const role = `r"'$grants$;\n-- ${process.pid}_${Date.now()}`;
    beforeAll(async () => {
      database = await getPostgres({ major });
      await database.query(
        'create table orders (id int primary key, next int generated always as (id + 1) stored); insert into orders values (1); create schema s',
      );
      await database.query('create table s."Odd ""name""" (id int primary key)');
      await database.query('create table s.parted (id int primary key) partition by range (id)');
      await database.query('create table s.leaf partition of s.parted for values from (0) to (10)');
    });
    afterAll(async () => {
      const quoted = `"${role.replaceAll('"', '""')}"`;
      await database.query(`drop owned by ${quoted}`);
      await database.query(`drop role ${quoted}`);
      await database.close();
    });

    it('can be run twice, and then the role reads, replicates, and cannot write', async () => {
      const sql = grantsSql({
        server: 'plain',
        database: database.database,
        role,
        publication: "it's\\p",
        slot: 's',
        tables: [
          { schema: 'public', table: 'orders' },
          { schema: 's', table: 'Odd "name"' },
          { schema: 's', table: 'parted', partitions: [{ schema: 's', table: 'leaf' }] },
        ],
        wholeSchemas: ['public'],
        major,
      });
      await database.query(sql);
      await database.query(sql);
      await database.query(`alter role "${role.replaceAll('"', '""')}" password 'pw'`);
      await database.query('create table later (id int)');

      const client = new pg.Client({
        host: database.host,
        port: database.port,
        database: database.database,
        user: role,
        password: 'pw',
      });
      await client.connect();
      try {
        expect((await client.query('select count(*)::int n from orders')).rows).toEqual([{ n: 1 }]);
        expect((await client.query('select count(*)::int n from s."Odd ""name"""')).rows).toEqual([{ n: 0 }]);
        expect((await client.query('select count(*)::int n from later')).rows).toEqual([{ n: 0 }]);
        // As a snapshot reads it: a right on the table is none on its partitions.
        expect((await client.query('select count(*)::int n from only s.leaf')).rows).toEqual([{ n: 0 }]);
        const slot = `s_${database.database}`;
        await client.query('select pg_create_logical_replication_slot($1, $2)', [slot, 'pgoutput']);
        await client.query('select pg_drop_replication_slot($1)', [slot]);
        await expect(client.query('insert into orders values (2)')).rejects.toThrow('permission denied');
        await expect(client.query('drop publication "it\'s\\p"')).rejects.toThrow('must be owner');
      } finally {
        await client.end();
      }
      const published = await database.query(
        'select tablename from pg_publication_tables where pubname = $1 order by 1',
        ["it's\\p"],
      );
      expect(published.map(({ tablename }) => tablename)).toEqual(
        major >= 15 ? ['Odd "name"', 'later', 'orders', 'parted'] : ['Odd "name"', 'orders', 'parted'],
      );
      // As the reader's own CREATE PUBLICATION has it: what `init` writes into contracts is what comes.
      const source = await openPostgresSource(() => parseConnection(database.url));
      const session = await source.session('test');
      try {
        expect(await findPublication(session, "it's\\p")).toMatchObject({
          viaRoot: true,
          storedGenerated: major >= 18,
          insert: true,
          update: true,
          delete: true,
          truncate: true,
        });
      } finally {
        await session.close();
      }
    });
  });
}
