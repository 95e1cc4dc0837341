/**
 * docker-compose.yml, proven where no Docker engine runs: its services are started natively with the very commands and
 * environment that it names (only paths and addresses of the container world are mapped), the shop's workload goes through
 * Kafka onto S3 with two stream workers, and `sluice verify` finds the lake equal to the source.
 */
import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fetchS3 } from '../../ops/local/s3.ts';
import { freePort } from '../../ops/local/free-port.ts';
import { startKafka } from '../../ops/local/kafka.ts';
import { startPostgres } from '../../ops/local/postgres.ts';
import type { PostgresServer } from '../../ops/local/postgres.ts';
import { startServerProcess } from '../../ops/local/server-process.ts';
import { SHOP_SCHEMA_SQL, SHOP_TABLES } from '../../services/cli/demo/shop-schema.ts';
import { loadShop, runWorkload } from '../../services/cli/demo/shop-workload.ts';
import { cacheFolder } from '../support/cache.ts';
import { dockerfileInstruction, mapEnvironment, mapText, readCompose } from '../support/compose-file.ts';
import type { Mapping } from '../support/compose-file.ts';
import { requires } from '../support/requirements.ts';
import { REPOSITORY } from '../support/source-files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const compose = readCompose();

describe('docker-compose.yml', () => {
  it.each(Object.entries(compose.services))('%s is bounded, unprivileged and checked', (_name, service) => {
    expect(service.user).toMatch(/^(?!0(:|$)|root)/);
    expect(service.cap_drop).toEqual(['ALL']);
    expect(service.healthcheck.test.length).toBeGreaterThan(1);
    expect(service.deploy.resources.limits).toEqual({
      cpus: expect.any(String),
      memory: expect.stringMatching(/^\d+[mg]$/),
    });
    expect(service.image.includes(':') || service.build !== undefined).toBe(true);
    expect(service.image).not.toMatch(/:latest$/);
    // Published ports are for this machine only.
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  it('names secrets, files and stages that exist, and no secret by value', () => {
    for (const service of Object.values(compose.services)) {
      for (const secret of service.secrets ?? []) expect(compose.secrets).toHaveProperty(secret);
      for (const volume of service.volumes ?? []) {
        const source = volume.split(':')[0] ?? '';
        if (source.startsWith('./')) expect(existsSync(join(REPOSITORY, source)), source).toBe(true);
        else if (!source.startsWith('/')) expect(compose.volumes).toHaveProperty(source);
      }
      for (const [name, value] of Object.entries(service.environment ?? {})) {
        if (/PASSWORD|SECRET|TOKEN|KEY/.test(name)) expect(String(value), name).toMatch(/^\/run\/secrets\//);
      }
      if (service.build !== undefined)
        expect(dockerfileInstruction(service.build.target, 'ENTRYPOINT')).not.toEqual([]);
    }
  });

  it('can be scaled: a stream worker has no name and no port of its own on the host', () => {
    expect(compose.services['stream']).not.toHaveProperty('container_name');
    expect(compose.services['stream']).not.toHaveProperty('ports');
  });

  it('builds from files that exist', () => {
    const dockerfile = readFileSync(join(REPOSITORY, 'ops/Dockerfile'), 'utf8');
    const copies = [...dockerfile.matchAll(/^COPY (?!--from)(?:--\S+ )*(.+) \S+$/gm)].flatMap((match) =>
      (match[1] ?? '').split(' '),
    );
    expect(copies.length).toBeGreaterThan(6);
    for (const path of copies) expect(existsSync(join(REPOSITORY, path)), path).toBe(true);
    expect(dockerfileInstruction('sluice', 'USER')).not.toEqual(['root']);
    for (const script of ['init-postgres.sh', 'start-s3.sh']) {
      expect(statSync(join(REPOSITORY, 'ops/compose', script)).mode & 0o111, script).not.toBe(0);
    }
  });
});

const suite = await requires('docker-compose.yml natively', 'pg18', 'kafka', 's3');
suite('its services, started natively', () => {
  const home = temporaryFolder('compose');
  const services = compose.services as Readonly<
    Record<'postgres' | 'kafka' | 's3' | 'reader' | 'stream', (typeof compose.services)[string]>
  >;
  const stops: (() => Promise<void>)[] = [];
  const secrets = join(home, 'secrets');
  const secret = (name: string): string => readFileSync(join(secrets, name), 'utf8').trim();
  let postgres: PostgresServer;
  let mapping: Mapping;

  beforeAll(async () => {
    execFileSync(process.execPath, [join(REPOSITORY, 'ops/compose/make-secrets.mjs'), secrets]);
    const ports = { kafka: await freePort(), controller: await freePort(), s3: await freePort() };
    mapping = [
      ['/run/secrets/', `${secrets}/`],
      ['/var/lib/kafka/data', join(home, 'kafka', 'data')],
      ['/etc/sluice/', `${home}/`],
      ['0.0.0.0:9092', `127.0.0.1:${ports.kafka}`],
      ['kafka:9092', `127.0.0.1:${ports.kafka}`],
      ['127.0.0.1:9093', `127.0.0.1:${ports.controller}`],
      ['0.0.0.0:7070', `127.0.0.1:${ports.s3}`],
      ['http://s3:7070', `http://127.0.0.1:${ports.s3}`],
    ];
    await Promise.all([startDatabase(), startBroker(ports), startStore(ports.s3)]);
  });

  afterAll(async () => {
    for (const stop of stops.toReversed()) await stop();
  });

  /** The image's own behaviour: POSTGRES_DB is made, then the init script runs in it; `-c` settings are the server's. */
  async function startDatabase(): Promise<void> {
    const { command = [] } = services.postgres;
    const settings = command.filter((_, n) => command[n - 1] === '-c').map((setting) => setting.split('='));
    expect(settings.length).toBeGreaterThan(0);
    const environment = mapEnvironment(services.postgres, mapping);
    postgres = await startPostgres({
      durable: false,
      password: readFileSync(environment['POSTGRES_PASSWORD_FILE'] ?? '', 'utf8').trim(),
      settings: Object.fromEntries(settings) as Record<string, string>,
    });
    stops.push(async () => postgres.stop('immediate'));
    const database = environment['POSTGRES_DB'] ?? '';
    await owner('postgres', `create database ${database}`);
    // The script's own SQL, as psql would put its variables in.
    const script = readFileSync(join(REPOSITORY, 'ops/compose/init-postgres.sh'), 'utf8');
    const sql = /<<'SQL'\n([\s\S]*)\nSQL/.exec(script)?.[1] ?? '';
    await owner(
      database,
      sql.replace(":'password'", `'${secret('sluice_password')}'`).replace(':"database"', `"${database}"`),
    );
  }

  async function owner(database: string, sql: string): Promise<pg.QueryResult> {
    const client = new pg.Client(postgres.urlFor({ database }));
    await client.connect();
    try {
      return await client.query(sql);
    } finally {
      await client.end();
    }
  }

  /** The image's own rule: KAFKA_A_B=c is a.b=c in server.properties. */
  async function startBroker(ports: { kafka: number; controller: number }): Promise<void> {
    const environment = mapEnvironment(services.kafka, mapping);
    const settings = Object.fromEntries(
      Object.entries(environment)
        .filter(([name]) => name.startsWith('KAFKA_') && name !== 'KAFKA_HEAP_OPTS')
        .map(([name, value]) => [name.slice('KAFKA_'.length).toLowerCase().replaceAll('_', '.'), value]),
    );
    const kafka = await startKafka({
      cache: cacheFolder(),
      dataDir: join(home, 'kafka'),
      ports: { plaintext: ports.kafka, controller: ports.controller, ssl: null, sasl: null },
      settings,
    });
    stops.push(async () => kafka.kill());
  }

  async function startStore(port: number): Promise<void> {
    const program = await fetchS3(cacheFolder());
    const data = join(home, 's3');
    mkdirSync(data);
    expect(dockerfileInstruction('s3', 'ENTRYPOINT')).toEqual(['/usr/local/bin/start-s3.sh']);
    const server = startServerProcess({
      name: 's3',
      command: join(REPOSITORY, 'ops/compose/start-s3.sh'),
      args: [],
      env: {
        PATH: `${dirname(program)}:${process.env['PATH'] ?? ''}`,
        S3_DATA: data,
        ...mapEnvironment(services.s3, mapping),
      },
      cwd: home,
      logFile: join(home, 's3.log'),
    });
    stops.push(async () => server.kill());
    await waitFor('the S3 server', async () => (await fetch(`http://127.0.0.1:${port}/`)).status > 0);
  }

  interface Worker {
    readonly child: ChildProcess;
    readonly environment: Record<string, string>;
    readonly port: number;
    output(): string;
    stop(): Promise<number | null>;
  }

  const entrypoint = (): string[] => {
    const [node, ...options] = dockerfileInstruction('sluice', 'ENTRYPOINT');
    expect([node, options.pop()]).toEqual(['node', '/app/dist/services/cli/main.js']);
    return [...options, '--import', 'tsx', 'services/cli/main.ts'];
  };

  /** One container of a service: its command and environment, a state folder of its own, the contracts folder shared. */
  async function startWorker(name: 'reader' | 'stream', instance = 1): Promise<Worker> {
    const port = await freePort();
    const own: Mapping = [
      ...mapping,
      ['/var/lib/sluice/state', join(home, `state-${name}-${instance}`)],
      ['/var/lib/sluice/contracts', join(home, 'contracts')],
    ];
    const file = `${name}-${instance}.yaml`;
    const config = mapText(readFileSync(join(REPOSITORY, 'ops/compose/sluice.yaml'), 'utf8'), own)
      .replace('host: postgres', 'host: 127.0.0.1')
      .replace('port: 5432', `port: ${postgres.port}`)
      .replace('host: 0.0.0.0', 'host: 127.0.0.1');
    writeFileSync(join(home, file), config);
    const environment = { ...mapEnvironment(services[name], own), SLUICE_HTTP_PORT: String(port) };
    const command = (services[name].command ?? []).map((part) => mapText(part, own).replace('sluice.yaml', file));
    let output = '';
    const child = spawn(process.execPath, [...entrypoint(), ...command], {
      cwd: REPOSITORY,
      env: { PATH: process.env['PATH'] ?? '', HOME: home, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const gone = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const stop = async (): Promise<number | null> => {
      child.kill('SIGTERM');
      return gone;
    };
    stops.push(async () => {
      child.kill('SIGKILL');
      await gone;
    });
    return { child, environment, port, output: () => output, stop };
  }

  /** Waits for it; what it wrote is told where it never comes. */
  async function untilHealthy(worker: Worker, name: 'reader' | 'stream'): Promise<void> {
    const settled = (): boolean => worker.child.exitCode !== null || healthy(worker, name);
    await waitFor(`${name} to be healthy`, settled, { everyMs: 500 }).catch(() => undefined);
    expect(healthy(worker, name), `${name}, exit code ${worker.child.exitCode}:\n${worker.output()}`).toBe(true);
  }

  /** The file's own health check, with the container's program path mapped. */
  function healthy(worker: Worker, name: 'reader' | 'stream'): boolean {
    const [kind, program, ...args] = services[name].healthcheck.test;
    expect([kind, program]).toEqual(['CMD', 'node']);
    try {
      execFileSync(
        process.execPath,
        args.map((part) => part.replace(/^\/app\//, REPOSITORY)),
        {
          env: { ...worker.environment },
          stdio: 'ignore',
        },
      );
      return true;
    } catch {
      return false;
    }
  }

  it('carry the shop through Kafka onto S3, row for row', async () => {
    const client = new pg.Client(postgres.urlFor({ database: 'shop' }));
    await client.connect();
    stops.push(async () => client.end().catch(() => {}));
    await client.query(SHOP_SCHEMA_SQL);
    const session = {
      query: async (sql: string, values?: readonly unknown[]) =>
        client.query(sql, values === undefined ? undefined : [...values]),
    };
    await loadShop(session, 2_000);

    const workers = { reader: await startWorker('reader'), stream: await startWorker('stream') };
    for (const name of ['reader', 'stream'] as const) await untilHealthy(workers[name], name);
    const second = await startWorker('stream', 2);
    await untilHealthy(second, 'stream');
    // Guarded by the token that the file gives by secret.
    const metrics = `http://127.0.0.1:${workers.reader.port}/metrics`;
    expect((await fetch(metrics)).status).toBe(401);
    const answer = await fetch(metrics, { headers: { authorization: `Bearer ${secret('http_token')}` } });
    expect(await answer.text()).toContain('sluice_reader_records_total');

    const counts = await runWorkload(session, {
      seed: 7,
      transactions: 400,
      signal: new AbortController().signal,
      rows: 2_000,
      violationEvery: 100,
    });
    expect(counts.transactions).toBe(400);

    const verify = spawnVerify();
    const report = await verify.catch((error: unknown) => {
      throw new Error(
        `verify failed\n--- reader\n${workers.reader.output().slice(-4000)}\n--- stream\n${workers.stream.output().slice(-4000)}\n--- second\n${second.output().slice(-3000)}`,
        { cause: error },
      );
    });
    for (const table of SHOP_TABLES) expect(report).toContain(table);

    for (const worker of [second, workers.stream, workers.reader]) expect(await worker.stop()).toBe(0);
  });

  /** `sluice verify` waits until the lake has the source's position and compares contents; any difference is exit 1. */
  async function spawnVerify(): Promise<string> {
    const args = [...entrypoint(), 'verify', '--config', join(home, 'reader-1.yaml'), '--json'];
    const environment = mapEnvironment(services.reader, mapping);
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, args, {
        cwd: REPOSITORY,
        env: { PATH: process.env['PATH'] ?? '', HOME: home, ...environment },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let [out, err] = ['', ''];
      child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
      child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
      child.once('exit', (code) => {
        if (code === 0) resolve(out);
        else reject(new Error(`exit ${code}\n${out.slice(-3000)}\n${err.slice(-3000)}`));
      });
    });
  }
});
