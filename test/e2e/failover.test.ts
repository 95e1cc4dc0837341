/**
 * A real primary and a real standby: the standby is refused as a source; promoted, it carries a pipeline on without loss where
 * the slot was synchronized (PostgreSQL 17 and newer), and stops it by name where it was not, or where it lacks what was read.
 */
import { chmodSync, chownSync, cpSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { startPostgres, type PostgresServer } from '../../ops/local/postgres.ts';
import { REPOSITORY } from '../support/source-files.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('failover', 'pg18');

suite('failover', { timeout: 900_000 }, () => {
  const folder = temporaryFolder('failover');
  const servers: PostgresServer[] = [];
  afterAll(async () => {
    for (const server of servers) await server.stop('immediate').catch(() => undefined);
  });

  async function query(server: PostgresServer, sql: string): Promise<Record<string, string>[]> {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    try {
      const result = (await client.query(sql)) as unknown as
        | { rows: Record<string, string>[] }
        | { rows: Record<string, string>[] }[];
      return (Array.isArray(result) ? result.at(-1) : result)?.rows ?? [];
    } finally {
      await client.end();
    }
  }

  /** The standby begins as a copy of the stopped primary, which is what pg_basebackup makes, too. */
  async function pair(name: string, syncSlots: boolean): Promise<{ primary: PostgresServer; standby: PostgresServer }> {
    const options = { durable: false, cache: join(REPOSITORY, '.cache') };
    // As root the servers run as another account, which must be able to enter.
    mkdirSync(join(folder, name), { recursive: true });
    for (const path of [folder, join(folder, name)]) chmodSync(path, 0o755);
    const primary = await startPostgres({ ...options, dataDir: join(folder, name, 'primary') });
    servers.push(primary);
    await query(primary, `select pg_create_physical_replication_slot('to_standby', true)`);
    await primary.stop();
    const dataDir = join(folder, name, 'standby');
    cpSync(primary.dataDir, dataDir, { recursive: true, preserveTimestamps: true });
    writeFileSync(join(dataDir, 'standby.signal'), '');
    const { uid, gid } = statSync(primary.dataDir);
    for (const path of ['.', ...readdirSync(dataDir, { recursive: true, encoding: 'utf8' })])
      chownSync(join(dataDir, path), uid, gid);
    await primary.restart();
    const standby = await startPostgres({
      ...options,
      dataDir,
      settings: {
        primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres password=${primary.password} dbname=postgres application_name=standby`,
        primary_slot_name: 'to_standby',
        hot_standby_feedback: true,
        sync_replication_slots: syncSlots,
        wal_receiver_status_interval: 1,
      },
    });
    servers.push(standby);
    return { primary, standby };
  }

  async function pipeline(
    name: string,
  ): Promise<(server: PostgresServer) => { cwd: string; env: Record<string, string> }> {
    const cwd = join(folder, name, 'pipeline');
    mkdirSync(cwd, { recursive: true });
    writeFileSync(
      join(cwd, 'sluice.yaml'),
      `name: ${name}
source: {postgres: "\${PGURL}", tables: ["public.*"]}
lake: {uri: ./lake}
stream: {trigger: 100ms}
http: {port: ${await freePort()}}
logging: {level: warn}
`,
    );
    return (server) => ({ cwd, env: { PGURL: server.url } });
  }
  const lake = async (options: { cwd: string; env: Record<string, string> }): Promise<string[]> => {
    const { code, out, err } = await runSluice(
      ['sql', `select id || ';' || v as r from public.t order by id`, '--format', 'csv'],
      options,
    );
    expect(code, err).toBe(0);
    return out
      .split('\n')
      .slice(1)
      .filter((line) => line !== '');
  };
  const rows = async (server: PostgresServer): Promise<string[]> =>
    (await query(server, `select id || ';' || v as r from t order by id`)).map(({ r }) => r ?? '');
  const replayed = async (primary: PostgresServer, standby: PostgresServer): Promise<void> => {
    const [now] = await query(primary, 'select pg_current_wal_lsn()::text as lsn');
    await waitFor('the standby', async () => {
      const [row] = await query(standby, `select (pg_last_wal_replay_lsn() >= '${now?.['lsn'] ?? ''}')::text as done`);
      return row?.['done'] === 'true';
    });
  };
  const TABLE = `create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 500) i`;

  it('goes on at the promoted standby with a synchronized slot; a standby itself is refused', async () => {
    const { primary, standby } = await pair('synced', true);
    await query(primary, TABLE);
    await replayed(primary, standby);
    const at = await pipeline('synced');
    const refused = await runSluice(['run', '--available-now'], at(standby));
    expect(refused.code).toBe(3);
    expect(refused.err).toMatch(/SLU-\d+ .*is a standby.*\n.*name the primary/);
    const service = startSluice(['run'], at(primary));
    await waitFor('the snapshot', async () => (await lake(at(primary)).catch(() => [])).length === 500, {
      everyMs: 500,
    });
    await query(primary, `update t set v = 'streamed' where id <= 100; delete from t where id = 7`);
    await waitFor('the changes', async () => (await lake(at(primary)))[0] === '1;streamed', { everyMs: 500 });
    await waitFor(
      'the slot on the standby',
      async () =>
        (
          await query(
            standby,
            `select 1 from pg_replication_slots where slot_name = 'sluice_synced' and synced and not temporary`,
          )
        ).length === 1,
      { everyMs: 500 },
    );
    service.kill('SIGTERM');
    expect((await service.ended).code).toBe(0);
    // Not read by the pipeline before the primary goes.
    await query(
      primary,
      `update t set v = 'unread' where id between 200 and 300; insert into t values (900, 'unread')`,
    );
    await replayed(primary, standby);
    const expected = await rows(primary);
    await primary.stop();
    await query(standby, 'select pg_promote()');
    await query(standby, `insert into t values (901, 'after'); update t set v = 'after' where id = 1`);
    const { code, err } = await runSluice(['run', '--available-now'], at(standby));
    expect(code, err).toBe(0);
    const now = await rows(standby);
    expect(now).toHaveLength(expected.length + 1);
    expect(await lake(at(standby))).toEqual(now);
    // And once more on the new timeline, as its own.
    await query(standby, `delete from t where id = 2`);
    expect((await runSluice(['run', '--available-now'], at(standby))).code).toBe(0);
    expect(await lake(at(standby))).toEqual(await rows(standby));
  });

  it('stops by name without the slot, or where the standby lacks what was read, and repair makes it equal', async () => {
    const { primary, standby } = await pair('unsynced', false);
    await query(primary, TABLE);
    await replayed(primary, standby);
    const at = await pipeline('unsynced');
    const first = await runSluice(['run', '--available-now'], at(primary));
    expect(first.code, first.err).toBe(0);
    await query(primary, `update t set v = 'seen' where id = 3`);
    await replayed(primary, standby);
    await query(standby, 'select pg_promote()');
    // The old primary goes on for a while: what the pipeline reads of it, the new one never had.
    await query(primary, `update t set v = 'lost' where id = 4`);
    expect((await runSluice(['run', '--available-now'], at(primary))).code).toBe(0);
    await primary.stop();
    await query(standby, `update t set v = 'new' where id = 5`);
    const lost = await runSluice(['run', '--available-now'], at(standby));
    expect(lost.code, lost.err).toBe(4);
    expect(lost.err).toMatch(/SLOT_LOST.*does not exist any more/);
    // A slot made by hand does not bring back what was read of the other branch.
    await query(standby, `select pg_create_logical_replication_slot('sluice_unsynced', 'pgoutput')`);
    await query(standby, `insert into t select i, 'further' from generate_series(1000, 5000) i`);
    const branched = await runSluice(['run', '--available-now'], at(standby));
    expect(branched.code, branched.err).toBe(4);
    expect(branched.err).toMatch(/SYSTEM_CHANGED.*left timeline 1 at .*below our position/);
    const repaired = await runSluice(['repair', '--all'], at(standby));
    expect(repaired.code, repaired.err).toBe(0);
    expect((await runSluice(['run', '--available-now'], at(standby))).code).toBe(0);
    expect(await lake(at(standby))).toEqual(await rows(standby));
  });
});
