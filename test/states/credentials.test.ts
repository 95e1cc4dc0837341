/**
 * CREDENTIALS, for real: the password at the source and the key of the store stop working under a running pipeline. Status names
 * which, nothing stops for good, and the rotated secret is picked up from its file without a restart.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { startPostgres, type PostgresServer } from '../../ops/local/postgres.ts';
import { fetchS3, startS3, type S3Server } from '../../ops/local/s3.ts';
import { runTool } from '../../ops/local/toolchain.ts';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('credentials that stop working', 'pg18', 's3');

suite('credentials that stop working', () => {
  const folder = temporaryFolder('credentials');
  let server: PostgresServer;
  let store: S3Server;
  let options: { cwd: string; env: Record<string, string> };
  let service: SluiceProcess | null = null;

  const sluice = (...args: string[]) => runSluice(args, options);
  const query = async (sql: string): Promise<void> => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query(sql);
    await client.end();
  };
  const givePassword = (text: string): void => writeFileSync(join(folder, 'password'), `${text}\n`);
  const giveKey = (secret: string): void =>
    writeFileSync(join(folder, 'aws'), `[default]\naws_access_key_id = app\naws_secret_access_key = ${secret}\n`);
  const account = async (...args: string[]): Promise<void> => {
    const own = ['--access', store.accessKeyId, '--secret', store.secretAccessKey, '--endpoint-url', store.endpoint];
    await runTool(await fetchS3(cacheFolder()), ['admin', ...own, ...args], { what: 'an S3 account' });
  };
  const equal = async (): Promise<boolean> => (await sluice('verify')).code === 0;
  /** Named while it lasts; with the right secret in its file everything goes on. */
  const namedAndPassing = async (place: string, mend: () => void): Promise<void> => {
    const { code, command } = statePage('CREDENTIALS', '');
    const said = `${code} CREDENTIALS(${place})`;
    const shown = await waitFor(
      said,
      async () => {
        const now = await sluice('status');
        return now.out.includes(said) ? now : null;
      },
      { everyMs: 300 },
    );
    expect(shown.code).toBe(3);
    expect((await sluice(...command)).code, 'doctor meets it too').not.toBe(0);
    mend();
    await waitFor('the lake to be equal again', equal, { everyMs: 500 });
    await waitFor('the state to go', async () => (await sluice('status')).code === 0);
    const healthy = await sluice(...command);
    expect(healthy, healthy.out + healthy.err).toMatchObject({ code: 0 });
  };

  beforeAll(async () => {
    server = await startPostgres({
      durable: false,
      cache: cacheFolder(),
      hba: [
        'host all postgres all trust',
        'local all all trust',
        'host all app all scram-sha-256',
        'host replication app all scram-sha-256',
      ],
    });
    await query(`create role app login replication superuser password 'first';
      create table t (id int primary key, v text); insert into t select i, 'v' from generate_series(1, 50) i`);
    store = await startS3({ cache: cacheFolder() });
    await store.createBucket('lake');
    await account('create-user', '--access', 'app', '--secret', 'first-secret-key', '--role', 'admin');
    givePassword('first');
    giveKey('first-secret-key');
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: cred
source: {host: 127.0.0.1, port: ${server.port}, database: postgres, user: app, password: "\${file:${join(folder, 'password')}}", tables: ["public.*"]}
lake: {uri: "s3://lake/tables", s3: {endpoint: "${store.endpoint}"}}
stream: {trigger: 200ms}
http: {port: ${await freePort()}}
logging: {level: error}
`,
    );
    options = { cwd: folder, env: { AWS_SHARED_CREDENTIALS_FILE: join(folder, 'aws') } };
    service = startSluice(['run'], options);
    await waitFor('the first snapshot', equal, { everyMs: 500 });
  });

  afterAll(async () => {
    service?.kill('SIGTERM');
    await service?.ended;
    await server.stop('immediate');
    await store.stop();
  });

  it('of the source', async () => {
    await query(`alter role app password 'second';
      select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'`);
    await query(`update t set v = 'while the password is wrong' where id < 10`);
    await namedAndPassing('source', () => givePassword('second'));
  });

  it('of the store', async () => {
    await account('update-user', '--access', 'app', '--secret', 'second-secret-key');
    await query(`update t set v = 'while the key is wrong' where id < 20`);
    await namedAndPassing('lake', () => giveKey('second-secret-key'));
  });
});
