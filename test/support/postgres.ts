/** A fresh database on the shared PostgreSQL of a major version. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { sharedServer } from './shared-server.ts';

export interface TestDatabase {
  /** Superuser's URL of this database. */
  readonly url: string;
  readonly host: '127.0.0.1';
  readonly port: number;
  readonly user: 'postgres';
  readonly password: string;
  readonly database: string;
  readonly major: number;
  /** Runs SQL (several statements if there are no parameters); rows of the last statement, every value as PostgreSQL's text. */
  query(sql: string, parameters?: readonly unknown[]): Promise<Record<string, string | null>[]>;
  /** A connection of its own, values as text, for a transaction that stays open. The caller ends it. */
  connect(): Promise<pg.Client>;
  /** Drops the database with its slots and connections. */
  close(): Promise<void>;
}

type Major = 14 | 15 | 16 | 17 | 18;

const asText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig;

/** One server per test run and major version; one database per call. Close it in `afterAll`, or its slots hold WAL. */
export async function getPostgres(options: { readonly major?: Major } = {}): Promise<TestDatabase> {
  const server = await sharedServer(`pg${options.major ?? 18}`);
  const database = `t_${randomBytes(6).toString('hex')}`;
  await once(server.url, `create database ${database}`);
  const url = new URL(server.url);
  url.pathname = `/${database}`;
  const clients = new Set<pg.Client>();
  const connect = async (): Promise<pg.Client> => {
    const client = await open(url.href);
    clients.add(client);
    client.once('end', () => clients.delete(client));
    return client;
  };
  let shared: Promise<pg.Client> | null = null;
  return {
    url: url.href,
    host: '127.0.0.1',
    port: server.port,
    user: 'postgres',
    password: server.password,
    database,
    major: server.major,
    async query(sql, parameters) {
      const client = await (shared ??= connect());
      const result = (await client.query(sql, parameters === undefined ? undefined : [...parameters])) as
        | pg.QueryResult<Record<string, string | null>>
        | pg.QueryResult<Record<string, string | null>>[];
      return (Array.isArray(result) ? result.at(-1) : result)?.rows ?? [];
    },
    connect,
    async close() {
      for (const client of clients) await client.end();
      shared = null;
      await once(server.url, DROP_SLOTS(database));
      await once(server.url, `drop database if exists ${database} with (force)`);
    },
  };
}

async function open(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, types: asText });
  // A server that a test kills ends idle connections; the next query reports it.
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function once(url: string, sql: string): Promise<void> {
  const client = await open(url);
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

const DROP_SLOTS = (database: string): string => `do $$
declare slot record;
begin
  perform pg_terminate_backend(pid) from pg_stat_activity where datname = '${database}' and pid <> pg_backend_pid();
  for slot in select slot_name, active_pid from pg_replication_slots where database = '${database}' loop
    for attempt in 1 .. 100 loop
      begin
        perform pg_drop_replication_slot(slot.slot_name);
        exit;
      exception when object_in_use then
        perform pg_sleep(0.1);
      end;
    end loop;
  end loop;
end $$`;
