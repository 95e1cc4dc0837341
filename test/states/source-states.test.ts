/**
 * The states of the whole source, each provoked for real: the slot lost, moved, invalidated; another system under the same
 * address. Nothing is read beyond the break, the message names it with its GAP, and what the page prints makes the lake equal.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { startPostgres, type PostgresServer } from '../../ops/local/postgres.ts';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('states of the source', 'pg18');
const SCHEMA = `create table orders (id int primary key, v text); create table lines (id int primary key, v text);
  insert into orders select i, 'v' from generate_series(1, 300) i; insert into lines select i, 'v' from generate_series(1, 50) i`;

suite('states of the source', () => {
  const folder = temporaryFolder('source-states');
  let server: PostgresServer;
  let other: PostgresServer | null = null;
  let options: { cwd: string; env: Record<string, string> };
  let service: SluiceProcess | null = null;
  let port = 0;

  const sluice = (...args: string[]) => runSluice(args, options);
  const query = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new pg.Client({ connectionString: options.env['PGURL'] });
    await client.connect();
    try {
      const result = (await client.query(sql)) as pg.QueryResult | pg.QueryResult[];
      return (Array.isArray(result) ? result.at(-1) : result)?.rows ?? [];
    } finally {
      await client.end();
    }
  };
  const equal = async (): Promise<boolean> => {
    const { out } = await sluice('verify', '--json');
    return (JSON.parse(out || '{"equal": false}') as { equal: boolean }).equal;
  };
  const start = (): void => {
    service = startSluice(['run'], options);
  };
  const stop = async (): Promise<void> => {
    service?.kill('SIGTERM');
    await service?.ended;
    service = null;
  };
  const streams = (): Promise<unknown> => waitFor('the lake to be equal', equal, { everyMs: 300 });
  /** What a person sees of a source that broke: the service that stays up, or that ended with exit code 4. */
  const brokenAs = async (state: string, gap: boolean): Promise<string> => {
    const { code } = statePage(state, '');
    let said = '';
    await waitFor(
      `${state}`,
      async () => {
        const ended = await Promise.race([service?.ended, Promise.resolve(null)]);
        if (ended !== null && ended !== undefined) {
          expect(ended.code, ended.err).toBe(4);
          said = ended.err;
        } else {
          const status = await sluice('status');
          if (status.code !== 4) return false;
          said = status.out;
        }
        return said.includes(state);
      },
      { everyMs: 300 },
    );
    expect(said).toContain(state);
    expect(said).toContain('sluice repair --all');
    expect(said.includes('GAP(')).toBe(gap);
    expect((await sluice('explain', code)).out).toContain(state);
    return said;
  };
  const mendByPage = async (state: string): Promise<void> => {
    const { command, stopFirst } = statePage(state, '');
    expect(stopFirst).toBe(false);
    const done = await sluice(...command);
    expect(done, done.err).toMatchObject({ code: 0 });
    // In the running service: nothing was started again.
    expect(service?.child.exitCode).toBeNull();
    await waitFor('the status', async () => (await sluice('status')).code === 0);
    await streams();
  };
  const unseen = `update orders set v = 'unseen' where id < 50; delete from orders where id between 100 and 110; insert into orders values (nextval('ids'), 'unseen')`;

  const configure = (source: string): void =>
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: src
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s${source}}
stream: {trigger: 200ms}
http: {port: ${port}}
logging: {level: warn}
`,
    );

  beforeAll(async () => {
    server = await startPostgres({
      durable: false,
      cache: cacheFolder(),
      settings: { max_slot_wal_keep_size: '1MB', wal_keep_size: '0', min_wal_size: '32MB', max_wal_size: '64MB' },
    });
    port = await freePort();
    configure('');
    options = { cwd: folder, env: { PGURL: server.url } };
    await query(`${SCHEMA}; create sequence ids start 1000`);
    start();
    await streams();
  });
  afterAll(async () => {
    await stop();
    await other?.stop('immediate');
    await server.stop('immediate');
  });

  it('SLOT_LOST', async () => {
    await stop();
    await query(`select pg_drop_replication_slot('sluice_src')`);
    await query(unseen);
    start();
    await brokenAs('SLOT_LOST', true);
    await mendByPage('SLOT_LOST');
  });

  it('SLOT_MOVED', async () => {
    await stop();
    await query(unseen);
    await query(`select pg_replication_slot_advance('sluice_src', pg_current_wal_lsn())`);
    start();
    await brokenAs('SLOT_MOVED', true);
    await mendByPage('SLOT_MOVED');
  });

  it('SLOT_INVALIDATED', async () => {
    await stop();
    await query(unseen);
    await waitFor('the slot to be lost', async () => {
      await query(`select pg_logical_emit_message(false, 'fill', repeat('x', 1000000)); select pg_switch_wal()`);
      await query('checkpoint');
      const [slot] = await query(`select wal_status from pg_replication_slots where slot_name = 'sluice_src'`);
      return slot?.['wal_status'] === 'lost';
    });
    start();
    await brokenAs('SLOT_INVALIDATED', true);
    await server.restart({ settings: { max_slot_wal_keep_size: '-1' } });
    await mendByPage('SLOT_INVALIDATED');
  });

  it('SLOT_INVALIDATED by idle_replication_slot_timeout', async () => {
    await stop();
    await query(unseen);
    await query(`alter system set idle_replication_slot_timeout = '1s'`);
    await query('select pg_reload_conf()');
    await waitFor('the slot to be idle for too long', async () => {
      await query('checkpoint');
      const [slot] = await query(`select invalidation_reason from pg_replication_slots where slot_name = 'sluice_src'`);
      return slot?.['invalidation_reason'] === 'idle_timeout';
    });
    await query('alter system reset idle_replication_slot_timeout');
    await query('select pg_reload_conf()');
    start();
    expect(await brokenAs('SLOT_INVALIDATED', true)).toContain('idle_timeout');
    await mendByPage('SLOT_INVALIDATED');
  });

  it('a slot above source.walBudget: not ready with alert, SLOT_LOST with drop-slot; what holds it is named', async () => {
    await stop();
    configure(', walBudget: 8MB');
    start();
    await streams();
    await server.restart({ settings: { max_slot_wal_keep_size: '2GB' } });
    await streams();
    const holder = new pg.Client({ connectionString: options.env['PGURL'], application_name: 'the holder' });
    await holder.connect();
    await holder.query('begin; select pg_current_xact_id()');
    interface Slot {
      readonly heldBytes: string;
      readonly secondsToLimit: number | null;
      readonly growthBytesPerSecond: number;
      readonly oldestTransaction: { readonly application: string } | null;
    }
    const write = (): Promise<unknown> =>
      query(`select pg_logical_emit_message(false, 'fill', repeat('x', 4000000)); select pg_switch_wal()`);
    const slot = await waitFor(
      'the WAL that the slot holds back',
      async () => {
        await write();
        const status = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as {
          reader: { slot: Slot | null };
        };
        const found = status.reader.slot;
        return found !== null && Number(found.heldBytes) > 8_000_000 && found.secondsToLimit !== null ? found : null;
      },
      { everyMs: 500 },
    );
    expect(slot.growthBytesPerSecond).toBeGreaterThan(0);
    expect(slot.oldestTransaction).toMatchObject({ application: 'the holder' });
    const ready = await waitFor('it not to be ready', async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
      return answer.status === 503 ? answer.text() : null;
    });
    expect(ready).toContain('walBudget');
    expect((await sluice('status')).out).toContain('holds back');

    await stop();
    configure(', walBudget: 8MB, onExceed: drop-slot');
    start();
    await waitFor(
      'the slot to be dropped',
      async () => {
        await write();
        return (await query(`select 1 from pg_replication_slots where slot_name = 'sluice_src'`)).length === 0;
      },
      { everyMs: 500 },
    );
    const dropped = await waitFor('its state', async () => {
      const status = await sluice('status');
      return status.code === 4 ? status.out : null;
    });
    expect(dropped).toContain('SLU-6010 SLOT_LOST');
    expect(dropped).toContain('sluice repair --all');
    await holder.query('rollback');
    await holder.end();
    await query(unseen);
    await mendByPage('SLOT_LOST');
    await stop();
    configure('');
  });

  it('SYSTEM_CHANGED', async () => {
    await stop();
    other = await startPostgres({ durable: false, cache: cacheFolder() });
    options.env['PGURL'] = other.url;
    await query(`${SCHEMA}; update orders set v = 'of the other' where id > 200; delete from lines where id > 30`);
    start();
    await brokenAs('SYSTEM_CHANGED', false);
    await mendByPage('SYSTEM_CHANGED');
  });
});
