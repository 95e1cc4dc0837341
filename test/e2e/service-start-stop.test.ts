/**
 * How a service begins and ends: contracts are checked first; a broken source leaves the process up; SIGTERM ends it within ten
 * seconds whatever is away. SLUICE_DEBUG names what is still open then: only requests to a store that hangs may be.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { startKafka, type KafkaServer } from '../../ops/local/kafka.ts';
import { startPostgres, type PostgresServer } from '../../ops/local/postgres.ts';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { getS3, type TestBucket } from '../support/s3.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('start and stop of a service', 'pg18', 'kafka', 's3');

suite('start and stop of a service', () => {
  const folder = temporaryFolder('start-stop');
  let postgres: PostgresServer;
  let kafka: KafkaServer;
  let s3: TestBucket;
  let proxy: { readonly port: number; readonly hang: () => void; readonly close: () => void };

  async function query(sql: string): Promise<unknown[]> {
    const client = new pg.Client({ connectionString: postgres.url });
    await client.connect();
    const { rows } = await client.query<Record<string, unknown>>(sql);
    await client.end();
    return rows;
  }

  /** A pipeline's folder with its sluice.yaml. */
  async function place(name: string, yaml: string) {
    const cwd = join(folder, name);
    mkdirSync(join(cwd, 'contracts'), { recursive: true });
    writeFileSync(
      join(cwd, 'sluice.yaml'),
      `name: ${name}\nsource: {postgres: "\${PGURL}", tables: ["public.${name}*"]}\n${yaml}\nlogging: {level: error}\n`,
    );
    const port = await freePort();
    const env = { ...s3.environment, PGURL: postgres.url, SLUICE_HTTP_PORT: String(port), SLUICE_DEBUG: '1' };
    return { cwd, port, options: { cwd, env } };
  }
  const get = async (port: number, path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(30_000) });
    return { status: answer.status, text: await answer.text() };
  };
  const up = (port: number): Promise<boolean> =>
    waitFor('the service', async () => (await get(port, '/livez')).status === 200);
  async function ends(service: SluiceProcess, hanging = false): Promise<void> {
    const began = Date.now();
    service.kill('SIGTERM');
    const { code, err } = await service.ended;
    expect({ code, err }).toMatchObject({ code: 0 });
    if (!hanging) expect(err).not.toContain('still open at the end');
    // Ten seconds are kept by the program's own timer (main.ts); what hangs here would hold it for ever.
    expect(Date.now() - began).toBeLessThan(30_000);
  }

  beforeAll(async () => {
    [postgres, kafka, s3] = await Promise.all([
      startPostgres({ cache: cacheFolder() }),
      startKafka({ cache: cacheFolder() }),
      getS3(),
    ]);
    proxy = await startProxy(Number(new URL(s3.endpoint).port));
    for (const name of ['ctr', 'brk', 'fin', 'hng'])
      await query(
        `create table ${name} (id int primary key, v text); insert into ${name} select i, 'v' || i from generate_series(1, 100) i`,
      );
  });
  afterAll(async () => {
    proxy.close();
    await postgres.stop('immediate');
    await kafka.kill();
    await kafka.stop();
  });

  it('refuses a contract that does not parse or names a column that is not there, with its place', async () => {
    const { cwd, options } = await place('ctr', 'lake: {uri: ./lake}');
    expect(await runSluice(['run', '--available-now'], options)).toMatchObject({ code: 0 });
    const file = join(cwd, 'contracts/public.ctr.odcs.yaml');
    const good = readFileSync(file, 'utf8');
    writeFileSync(file, good.replace(/name: v\b/, 'name: vv'));
    for (const args of [['run', '--available-now'], ['run']]) {
      const { code, err } = await runSluice(args, options);
      expect({ code, err }).toMatchObject({
        code: 2,
        err: expect.stringMatching(/public\.ctr\.odcs\.yaml:\d+:\d+: /),
      });
      expect(err).toContain("no column 'vv'");
    }
    writeFileSync(file, good.replace('kind:', 'kindd:'));
    expect(await runSluice(['run', '--available-now'], options)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/public\.ctr\.odcs\.yaml:\d+:\d+: /),
    });
    writeFileSync(file, good);
    expect(await runSluice(['run', '--available-now'], options)).toMatchObject({ code: 0 });
    await runSluice(['teardown', '--yes'], options);
  });

  it('may have another name after a start that came to nothing, and shows what a teardown would drop while it runs', async () => {
    const { cwd, port, options } = await place('nam', 'lake: {uri: ./lake}');
    await query(
      `create table nam (id int primary key); insert into nam values (1);
         create publication sluice_nam for table nam with (publish = 'insert')`,
    );
    expect((await runSluice(['run', '--available-now'], options)).err).toContain('SLU-2023');
    const file = join(cwd, 'sluice.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace('name: nam', 'name: other'));
    const service = startSluice(['run'], options);
    try {
      await up(port);
      await waitFor('its slot', async () => (await get(port, '/readyz')).status === 200);
      expect(await runSluice(['teardown'], options)).toMatchObject({
        code: 0,
        out: expect.stringMatching(/would drop replication slot sluice_other \(in use by process \d+: stop /),
      });
      expect(await runSluice(['teardown', '--yes'], options)).toMatchObject({ code: 3 });
      expect((await get(port, '/readyz')).status).toBe(200);
    } finally {
      await ends(service);
    }
    // Without a pipeline it waits for one.
    await query('insert into nam values (2)');
    const verify = startSluice(['verify'], options);
    await waitFor(
      'its session',
      async () => (await query(`select 1 from pg_stat_activity where application_name = 'sluice'`)).length > 0,
    );
    await sleep(1_000);
    verify.kill('SIGTERM');
    expect(await verify.ended).toMatchObject({ code: 130, err: 'sluice: broken off by SIGTERM\n' });
    expect(await runSluice(['teardown', '--yes'], options)).toMatchObject({ code: 0 });
  });

  it('stays up when its slot was lost before its start, says so, and is mended by the command that it names', async () => {
    const { port, options } = await place('brk', 'lake: {uri: ./lake}\nstream: {trigger: 200ms}');
    expect(await runSluice(['run', '--available-now'], options)).toMatchObject({ code: 0 });
    await query(`select pg_drop_replication_slot('sluice_brk')`);
    expect((await runSluice(['run', '--available-now'], options)).code).toBe(4);
    const service = startSluice(['run'], options);
    try {
      await up(port);
      expect((await get(port, '/readyz')).status).toBe(503);
      expect((await get(port, '/readyz')).text).toContain('SLOT_LOST');
      expect(JSON.parse((await get(port, '/status')).text)).toMatchObject({
        reader: { stopped: { state: 'SLOT_LOST' } },
      });
      await sleep(6_000);
      expect(service.child.exitCode).toBeNull();
      await query(`update brk set v = 'unseen' where id < 10; delete from brk where id > 90`);
      // Against the service that runs: nothing is started again.
      const repaired = await runSluice(['repair', '--all'], options);
      expect(repaired.code, repaired.err + repaired.out).toBe(0);
      await waitFor('its readiness', async () => (await get(port, '/readyz')).status === 200);
      expect(JSON.parse((await get(port, '/status')).text)).toMatchObject({
        reader: { phase: 'streaming', stopped: null },
      });
      await query(`update brk set v = 'seen' where id between 20 and 30`);
      const beside = await runSluice(['verify', '--json'], options);
      expect(JSON.parse(beside.out), beside.err).toMatchObject({ equal: true });
    } finally {
      await ends(service);
    }
    expect(await runSluice(['run', '--available-now'], options)).toMatchObject({ code: 0 });
  });

  it('ends by SIGTERM when idle, while the store hangs, and after broker and database were killed', async () => {
    const lake = (port: number) =>
      `log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"]}\nlake: {uri: ${s3.uri}/l, s3: {endpoint: "http://127.0.0.1:${port}"}}\nstream: {trigger: 200ms}`;
    const direct = Number(new URL(s3.endpoint).port);
    const idle = await place('fin', lake(direct));
    // While the parts begin.
    for (const afterMs of [1_200, 2_000]) {
      const begun = startSluice(['run'], idle.options);
      await sleep(afterMs);
      await ends(begun);
    }
    const first = startSluice(['run'], idle.options);
    await up(idle.port);
    await sleep(1_000);
    await ends(first);

    const hung = await place('hng', lake(proxy.port).replace('/l,', '/h,'));
    const second = startSluice(['run'], hung.options);
    await up(hung.port);
    await waitFor('the first commit', async () => /"version":"\d/.test((await get(hung.port, '/status')).text));
    proxy.hang();
    await query(`update hng set v = 'hangs'`);
    await sleep(2_000);
    await ends(second, true);

    const third = startSluice(['run'], idle.options);
    await up(idle.port);
    await kafka.kill();
    await query(`update fin set v = 'nowhere to go'`);
    await sleep(2_000);
    await postgres.kill();
    await sleep(1_000);
    await ends(third);
  });
});

/** Passes everything on until it hangs: then it accepts and never answers. */
async function startProxy(target: number): Promise<{ port: number; hang: () => void; close: () => void }> {
  let hanging = false;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((inside) => {
    sockets.add(inside);
    const outside = net.connect(target, '127.0.0.1');
    sockets.add(outside);
    for (const socket of [inside, outside]) socket.on('error', () => undefined);
    inside.on('data', (data) => void (hanging || outside.write(data)));
    outside.on('data', (data) => void (hanging || inside.write(data)));
    inside.on('close', () => outside.destroy());
    outside.on('close', () => inside.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as net.AddressInfo).port,
    hang: () => (hanging = true),
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
