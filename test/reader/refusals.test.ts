/** What a first user gets wrong, and what befalls a running reader: each with its name, its fix, and nothing lost. */
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { startPostgres, type PostgresServer } from '../../ops/local/postgres.ts';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { dataTopic } from '../../services/log/topics.ts';
import { parseConnection, type ConnectionParts } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import type { ReaderError } from '../../services/reader/reader-error.ts';
import { startReader } from '../../services/reader/reader.ts';
import type { ReaderOptions } from '../../services/reader/reader-options.ts';
import { waitFor } from '../support/wait-for.ts';
import { QUIET } from './harness.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function server(settings: Record<string, string | number> = {}): Promise<PostgresServer> {
  const started = await startPostgres({ durable: false, settings });
  undo.push(async () => started.stop());
  return started;
}

async function read(url: string | (() => string), options: Partial<ReaderOptions> = {}, parts: ConnectionParts = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-refusal-'));
  const log = await openEmbeddedLog({ directory, recordBytesMax: 100_000 });
  undo.push(async () => {
    await log.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const source = await openPostgresSource(() => parseConnection(typeof url === 'string' ? url : url(), parts));
  const reader = await startReader({
    name: 'p',
    source,
    log,
    slot: 'p',
    publication: 'p',
    tables: ['public.*'],
    newTables: 'backfill',
    logKind: 'embedded',
    topic: { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false },
    snapshotParallel: 2,
    snapshotChunkRows: 500,
    putLarge: null,
    committedLsn: null,
    logger: QUIET,
    clock: Date.now,
    runId: `r${Math.random()}`,
    failpoint: () => undefined,
    ...options,
    limits: { heartbeatMs: 300, idleMarkMs: 300, reconnectMsMax: 500 },
  });
  undo.push(async () => reader.stop());
  return { reader, log };
}

async function refusal(
  url: string,
  options: Partial<ReaderOptions> = {},
  parts: ConnectionParts = {},
): Promise<ReaderError> {
  return read(url, options, parts).then(
    () => Promise.reject(new Error('it was not refused')),
    (error: unknown) => error as ReaderError,
  );
}

async function sql(url: string, text: string) {
  const source = await openPostgresSource(() => parseConnection(url));
  const session = await source.session('test');
  try {
    return await session.query(text);
  } finally {
    await session.close();
  }
}

describe('refusals', () => {
  it('names what is wrong with the server, the role and the tables, and leaves nothing behind', async () => {
    const pg = await server({ wal_level: 'replica', max_replication_slots: 1 });
    await sql(
      pg.url,
      `create table public.t (id int primary key); create role plain login password 'x'; create role repl login replication password 'x'`,
    );
    expect((await refusal(pg.url)).code).toBe('WAL_LEVEL');
    await pg.restart({ settings: { wal_level: 'logical', max_replication_slots: 1 } });
    expect((await refusal(pg.urlFor({ user: 'plain', password: 'x' }))).code).toBe('NO_REPLICATION_PRIVILEGE');
    expect((await refusal(pg.urlFor({ password: 'wrong' }))).code).toBe('SOURCE_AUTHENTICATION');
    expect((await refusal(pg.urlFor({ database: 'absent' }))).code).toBe('SOURCE_UNREACHABLE');
    const denied = await refusal(pg.urlFor({ user: 'repl', password: 'x' }));
    expect(denied.code).toBe('PUBLICATION_DENIED');
    expect(denied.remedy).toContain('CREATE PUBLICATION "p" FOR TABLE "public"."t"');
    await sql(
      pg.url,
      `create table public.k (v int); create publication p for table public.t with (publish = 'insert')`,
    );
    expect((await refusal(pg.url)).code).toBe('PUBLICATION_INCOMPLETE');
    await sql(pg.url, `alter publication p set (publish = 'insert, update, delete, truncate')`);
    await sql(pg.url, 'create table public.parted (id int primary key) partition by range (id)');
    await sql(pg.url, 'alter publication p add table public.parted');
    const underLeaves = await refusal(pg.url);
    expect(underLeaves.code).toBe('PUBLICATION_INCOMPLETE');
    expect(underLeaves.remedy).toBe('ALTER PUBLICATION "p" SET (publish_via_partition_root = true);');
    await sql(pg.url, 'drop table public.parted');
    expect((await refusal(pg.url, { tables: ['public.k'] })).code).toBe('TABLE_NO_KEY');
    await sql(pg.url, 'create table public.d (id int primary key deferrable)');
    const deferrable = await refusal(pg.url, { tables: ['public.d'] });
    expect(deferrable.code).toBe('TABLE_NO_KEY');
    expect(deferrable.message).toContain('deferrable primary key');
    await sql(pg.url, 'drop table public.d');
    expect((await refusal(pg.url, { tables: ['nothing.*'] })).code).toBe('NO_TABLES');
    await sql(pg.url, 'create view public.seen as select 1 as id');
    const ofView = await refusal(pg.url, { tables: ['public.seen'] });
    expect(ofView).toMatchObject({ code: 'NO_TABLES', message: expect.stringContaining('public.seen is a view') });
    expect(await sql(pg.url, 'select slot_name from pg_replication_slots')).toEqual([]);
    await sql(pg.url, `select pg_create_logical_replication_slot('other', 'test_decoding')`).catch(() => undefined);
    await sql(pg.url, `select pg_create_physical_replication_slot('physical')`).catch(() => undefined);
    const full = await refusal(pg.url);
    expect(full.code).toBe('NO_FREE_SLOT');
    expect(full.remedy).toMatch(/max_replication_slots/);
    expect(await sql(pg.url, 'select pubname from pg_publication'), 'it was there before').toHaveLength(1);
    await sql(pg.url, 'drop publication p');
    expect((await refusal(pg.url)).code).toBe('NO_FREE_SLOT');
    expect(await sql(pg.url, 'select pubname from pg_publication'), 'it was made by the start that failed').toEqual([]);
    expect((await refusal('postgres://postgres@127.0.0.1:1/x')).code).toBe('SOURCE_UNREACHABLE');
  });

  it('reads a rotated password again, and goes on when the server was killed under load', async () => {
    const pg = await server();
    await sql(pg.url, `create table public.t (id int primary key, v text)`);
    let password = pg.password;
    const { reader, log } = await read(() => pg.urlFor({ password }));
    await waitFor('the snapshot', () => reader.status().tables[0]?.phase === 'streaming');
    let inserted = 0;
    for (let round = 0; round < 3; round++) {
      await sql(
        pg.urlFor({ password }),
        `insert into public.t select g, repeat('x', 100) from generate_series(${inserted + 1}, ${inserted + 2000}) g`,
      );
      inserted += 2000;
      if (round === 1) {
        await sql(pg.urlFor({ password }), `alter role postgres password 'rotated'`);
        password = 'rotated';
      }
      await pg.kill();
      await pg.restart();
    }
    await waitFor('all rows in the log, once', async () => {
      const end = (await log.reader.bounds(dataTopic('p', 'public', 't'))).get(0)?.end ?? 0n;
      return end >= 6000n;
    });
    await waitFor('the reader to stream', () => reader.status().phase === 'streaming');
    const end = (await log.reader.bounds(dataTopic('p', 'public', 't'))).get(0)?.end ?? (0n as never);
    const keys = new Set<string>();
    let count = 0;
    for await (const batch of log.reader.read(dataTopic('p', 'public', 't'), 0, 0n as never, end)) {
      for (const key of batch.keys) keys.add(key?.toString() ?? '');
      count += batch.keys.length;
    }
    expect(keys.size).toBe(6000);
    expect(count).toBe(6000);
  });

  it('sends a value above the log’s limit by claim check, before the record that names it', async () => {
    const pg = await server();
    await sql(
      pg.url,
      `create table public.t (id int primary key, v text); insert into public.t values (1, repeat('a', 200000))`,
    );
    const stored = new Map<string, number>();
    const { log } = await read(pg.url, {
      putLarge: (key, bytes) => Promise.resolve(void stored.set(key, bytes.length)),
    });
    await sql(pg.url, `insert into public.t values (2, repeat('b', 3000000)), (3, 'small')`);
    const topic = dataTopic('p', 'public', 't');
    await waitFor('the events', async () => ((await log.reader.bounds(topic)).get(0)?.end ?? 0n) >= 3n);
    const claims: unknown[] = [];
    for await (const batch of log.reader.read(topic, 0, 0n as never, 3n as never)) {
      batch.headers.forEach((header, i) => {
        if (((header?.readUInt8(2) ?? 0) & 1) === 1) claims.push(JSON.parse(batch.values[i]?.toString() ?? '{}'));
      });
    }
    expect(claims).toHaveLength(2);
    for (const claim of claims as { sluiceClaim: { key: string; bytes: number } }[]) {
      expect(stored.get(claim.sluiceClaim.key)).toBe(claim.sluiceClaim.bytes);
    }
  });

  it('leaves no slot and no publication behind when it is stopped while the slot waits for a running transaction', async () => {
    const pg = await server();
    await sql(pg.url, `create table public.t (id int primary key)`);
    const source = await openPostgresSource(() => parseConnection(pg.url));
    const open = await source.session('open transaction');
    await open.query('begin; insert into public.t values (1)');
    const abort = new AbortController();
    const starting = read(pg.url, { signal: abort.signal }).then(
      () => 'ended',
      () => 'refused',
    );
    await waitFor('the slot to wait', async () => {
      const rows = await sql(
        pg.url,
        `select 1 from pg_stat_activity where query like '%pg_create_logical%' and wait_event_type = 'Lock'`,
      );
      return rows.length > 0;
    });
    abort.abort();
    await starting;
    await open.query('commit');
    await open.close();
    // The server drops what its broken session had begun when it gets to it.
    await waitFor(
      'the slot to go',
      async () => (await sql(pg.url, 'select slot_name from pg_replication_slots')).length === 0,
    );
    expect(await sql(pg.url, 'select pubname from pg_publication')).toEqual([]);
  });

  it('refuses a pooler in transaction mode', async () => {
    const pg = await server();
    await sql(pg.url, `create table public.t (id int primary key)`);
    const pooler = await startPooler(pg.port);
    undo.push(pooler.close);
    const refused = await refusal(
      pg.urlFor({}).replace(`:${pg.port}/`, `:${pooler.port}/`),
      {},
      { sslmode: 'disable' },
    );
    expect(refused.message).toMatch(/transaction mode/);
    expect(refused.code).toBe('SOURCE_POOLED');
    expect(refused.remedy).toMatch(/not PgBouncer/);
  });
});

/**
 * As little of a transaction-mode pooler as is seen from outside: every client logs in by itself (so that passwords work), is
 * told a made-up process id, and each simple query goes to whichever of the server connections is free.
 */
async function startPooler(target: number): Promise<{ port: number; close: () => Promise<void> }> {
  const sockets = new Set<Socket>();
  const free: Socket[] = [];
  const listener = createServer((client) => {
    sockets.add(client);
    client.on('error', () => undefined);
    const own = connect(target, '127.0.0.1');
    sockets.add(own);
    own.on('error', () => undefined);
    let ready = false;
    let held: Socket | null = own;
    const give = (socket: Socket): void => {
      socket.removeAllListeners('data');
      socket.on('data', (chunk) => {
        const at = chunk.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
        if (!ready && at >= 0) chunk.writeInt32BE(42, at + 5);
        client.write(chunk);
        const status = chunk.length >= 6 && chunk[chunk.length - 6] === 0x5a ? chunk[chunk.length - 1] : 0;
        if (status === 0x49) {
          ready = true;
          free.push(socket);
          held = null;
        }
      });
    };
    give(own);
    client.on('data', (chunk) => {
      if (chunk[0] === 0x58) return;
      if (held === null) {
        held = free.pop() ?? own; // the last one used, as PgBouncer does
        give(held);
      }
      held.write(chunk);
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const address = listener.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
