/**
 * Connections as users have them, from the keys of sluice.yaml to the server and back: PostgreSQL with TLS, SCRAM and client
 * certificates; Kafka with TLS client certificates and every SASL mechanism; S3 over TLS. A private CA throughout, with
 * right, wrong and expired credentials.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createCertificateAuthority } from '../../ops/local/certificates.ts';
import type { CertificateAuthority, CertificateFiles } from '../../ops/local/certificates.ts';
import { startKafka } from '../../ops/local/kafka.ts';
import type { KafkaServer } from '../../ops/local/kafka.ts';
import { startPostgres } from '../../ops/local/postgres.ts';
import type { PostgresServer } from '../../ops/local/postgres.ts';
import { startS3 } from '../../ops/local/s3.ts';
import type { S3Server } from '../../ops/local/s3.ts';
import { openLake } from '../../services/cli/assemble/lake.ts';
import { openLog } from '../../services/cli/assemble/log.ts';
import { openSource } from '../../services/cli/assemble/source.ts';
import { parseConfig } from '../../services/runtime/config.ts';
import type { Config } from '../../services/runtime/config.ts';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** sluice.yaml with these keys, read as the program reads it (JSON is YAML); `${file:…}` is read each time. */
function configOf(tree: object, readFile: (path: string) => string = () => ''): Config {
  return parseConfig({ text: JSON.stringify(tree), file: 'sluice.yaml', env: {}, readFile });
}

const postgresSuite = await requires('PostgreSQL over TLS', 'pg18', 'openssl');
postgresSuite('PostgreSQL over TLS', () => {
  const folder = temporaryFolder('tls-postgres');
  let ca: CertificateAuthority;
  let otherCa: CertificateAuthority;
  let files: Record<'server' | 'client' | 'stranger' | 'expired', CertificateFiles>;
  let server: PostgresServer;

  beforeAll(async () => {
    ca = await createCertificateAuthority(join(folder, 'ca'));
    otherCa = await createCertificateAuthority(join(folder, 'other'), 'Another CA');
    files = {
      // `db.internal` and not 127.0.0.1: so verify-full differs from verify-ca.
      server: await ca.issue('db.internal', { hosts: ['db.internal', 'localhost'] }),
      client: await ca.issue('app'),
      stranger: await otherCa.issue('app'),
      expired: await ca.issue('app', { expired: true }),
    };
    server = await startPostgres({
      durable: false,
      ssl: { cert: files.server.cert, key: files.server.key, ca: ca.ca },
      hba: [
        'hostssl all postgres all scram-sha-256',
        'hostssl all scram all scram-sha-256',
        'hostssl replication scram all scram-sha-256',
        'hostssl all app all cert',
        'hostssl replication app all cert',
      ],
    });
    const admin = new pg.Client({ connectionString: server.url, ssl: { rejectUnauthorized: false } });
    await admin.connect();
    await admin.query("create role scram login replication password 'first'; create role app login replication");
    await admin.end();
  });
  afterAll(async () => {
    await server.stop('immediate');
  });

  /** Connects as a user would, a session and a walsender; `true` if both speak TLS. @throws ReaderError */
  async function connects(source: Record<string, unknown>): Promise<boolean> {
    const config = configOf({
      source: {
        host: '127.0.0.1',
        port: server.port,
        database: 'postgres',
        user: 'scram',
        password: 'first',
        ...source,
      },
    });
    const opened = await openSource(config, () => config);
    const session = await opened.session('test');
    try {
      const walsender = await opened.replication('test');
      await walsender.close();
      const [row] = await session.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()');
      return JSON.stringify(row).includes('t');
    } finally {
      await session.close();
    }
  }

  it('speaks TLS by `require` without verifying, and by `prefer`', async () => {
    expect(await connects({ sslmode: 'require' })).toBe(true);
    expect(await connects({ sslmode: 'prefer' })).toBe(true);
  });

  it('verifies the chain by verify-ca, and the host too by verify-full', async () => {
    expect(await connects({ sslmode: 'verify-ca', sslrootcert: ca.ca })).toBe(true);
    expect(await connects({ sslmode: 'verify-full', sslrootcert: ca.ca, host: 'localhost' })).toBe(true);
    await expect(connects({ sslmode: 'verify-full', sslrootcert: ca.ca })).rejects.toMatchObject({
      code: 'SOURCE_TLS',
    });
    await expect(connects({ sslmode: 'verify-ca', sslrootcert: otherCa.ca })).rejects.toMatchObject({
      code: 'SOURCE_TLS',
    });
  });

  it('is refused without TLS, and with a wrong password', async () => {
    await expect(connects({ sslmode: 'disable' })).rejects.toMatchObject({ code: expect.stringMatching(/^SOURCE_/) });
    await expect(connects({ sslmode: 'require', password: 'wrong' })).rejects.toMatchObject({
      code: 'SOURCE_AUTHENTICATION',
    });
  });

  it('logs in by client certificate, not by an expired one or one of another CA', async () => {
    const by = ({ cert, key }: CertificateFiles): Record<string, unknown> => ({
      user: 'app',
      password: null,
      sslmode: 'verify-ca',
      sslrootcert: ca.ca,
      sslcert: cert,
      sslkey: key,
    });
    expect(await connects(by(files.client))).toBe(true);
    await expect(connects(by(files.expired))).rejects.toMatchObject({
      code: expect.stringMatching(/^SOURCE_(TLS|AUTHENTICATION)$/),
    });
    await expect(connects(by(files.stranger))).rejects.toMatchObject({
      code: expect.stringMatching(/^SOURCE_(TLS|AUTHENTICATION)$/),
    });
  });

  it('puts neither password nor key into the error', async () => {
    const error: unknown = await connects({ sslmode: 'require', password: 'hunter2-wrong' }).catch((e: unknown) => e);
    expect(`${String(error)} ${JSON.stringify(error)}`).not.toContain('hunter2');
  });

  it('reads a rotated password again, without a restart', async () => {
    const secret = join(folder, 'password');
    writeFileSync(secret, 'first\n');
    let text = 'first';
    const load = (): Config =>
      configOf(
        {
          source: {
            host: '127.0.0.1',
            port: server.port,
            database: 'postgres',
            user: 'scram',
            sslmode: 'require',
            password: `\${file:${secret}}`,
          },
        },
        () => text,
      );
    const source = await openSource(load(), load);
    await (await source.session('before')).close();
    const admin = new pg.Client({ connectionString: server.url, ssl: { rejectUnauthorized: false } });
    await admin.connect();
    await admin.query("alter role scram password 'second'");
    await admin.end();
    text = 'second';
    await (await source.session('after')).close();
  });
});

const kafkaSuite = await requires('Kafka over TLS', 'kafka', 'openssl');
kafkaSuite('Kafka over TLS', () => {
  const folder = temporaryFolder('tls-kafka');
  let ca: CertificateAuthority;
  let otherCa: CertificateAuthority;
  let client: CertificateFiles;
  let expired: CertificateFiles;
  let server: KafkaServer;

  beforeAll(async () => {
    ca = await createCertificateAuthority(join(folder, 'ca'));
    otherCa = await createCertificateAuthority(join(folder, 'other'), 'Another CA');
    client = await ca.issue('app');
    expired = await ca.issue('app', { expired: true });
    const { keystore } = await ca.issue('localhost');
    server = await startKafka({
      cache: cacheFolder(),
      security: { ca: ca.ca, keystore, clientAuth: 'required', sasl: { users: { alice: 'wonder' } } },
    });
  });
  afterAll(async () => {
    await server.stop();
  });

  /** Topics, as a user's configuration reaches them. @throws LogError */
  async function topics(brokers: readonly string[] | null, log: object): Promise<readonly string[]> {
    const config = configOf({ log: { kind: 'kafka', brokers, ...log } });
    const opened = await openLog(config, () => config);
    try {
      return await opened.admin.topics();
    } finally {
      await opened.close();
    }
  }

  it('logs in by client certificate, not without one or by an expired one', async () => {
    const ssl = { enabled: true, ca: ca.ca };
    expect(await topics(server.sslBrokers, { ssl: { ...ssl, cert: client.cert, key: client.key } })).toEqual([]);
    await expect(topics(server.sslBrokers, { ssl })).rejects.toMatchObject({ name: 'LogError' });
    await expect(
      topics(server.sslBrokers, { ssl: { ...ssl, cert: expired.cert, key: expired.key } }),
    ).rejects.toMatchObject({ name: 'LogError' });
  });

  it.each(['plain', 'scram-sha-256', 'scram-sha-512'])('logs in by %s, not by a wrong password', async (mechanism) => {
    const ssl = { enabled: true, ca: ca.ca };
    const sasl = { mechanism, username: 'alice', password: 'wonder' };
    expect(await topics(server.saslBrokers, { ssl, sasl })).toEqual([]);
    const error: unknown = await topics(server.saslBrokers, { ssl, sasl: { ...sasl, password: 'hunter2' } }).catch(
      (e: unknown) => e,
    );
    expect(error).toMatchObject({ code: 'LOG_AUTHENTICATION', retriable: false });
    expect(String(error)).not.toContain('hunter2');
  });

  it('logs in by oauthbearer, not by an expired token', async () => {
    const ssl = { enabled: true, ca: ca.ca };
    const now = Math.floor(Date.now() / 1000);
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const token = (exp: number): string => `${part({ alg: 'none' })}.${part({ sub: 'alice', iat: now - 1000, exp })}.`;
    const sasl = (exp: number): object => ({ mechanism: 'oauthbearer', token: token(exp) });
    expect(await topics(server.saslBrokers, { ssl, sasl: sasl(now + 600) })).toEqual([]);
    await expect(topics(server.saslBrokers, { ssl, sasl: sasl(now - 600) })).rejects.toMatchObject({
      name: 'LogError',
    });
  });

  it('refuses a broker of another CA', async () => {
    const sasl = { mechanism: 'plain', username: 'alice', password: 'wonder' };
    await expect(topics(server.saslBrokers, { ssl: { enabled: true, ca: otherCa.ca }, sasl })).rejects.toMatchObject({
      name: 'LogError',
    });
  });
});

const s3Suite = await requires('S3 over TLS', 's3', 'openssl');
s3Suite('S3 over TLS', () => {
  const folder = temporaryFolder('tls-s3');
  const saved = { ...process.env };
  let ca: CertificateAuthority;
  let otherCa: CertificateAuthority;
  let right: S3Server;
  let outdated: S3Server;

  beforeAll(async () => {
    ca = await createCertificateAuthority(join(folder, 'ca'));
    otherCa = await createCertificateAuthority(join(folder, 'other'), 'Another CA');
    right = await startS3({ cache: cacheFolder(), tls: await ca.issue('localhost') });
    outdated = await startS3({ cache: cacheFolder(), tls: await ca.issue('localhost', { expired: true }) });
    for (const server of [right, outdated]) await server.createBucket('lake');
    await right.createAccount('weak', 'weak-secret-key');
  });
  afterEach(() => {
    process.env = { ...saved };
  });
  afterAll(async () => {
    await right.stop();
    await outdated.stop();
  });

  /** Writes and reads one object by a user's configuration, credentials from the SDK's default chain. @throws StoreError */
  async function roundTrip(
    server: S3Server,
    authority: string,
    keys: { id: string; secret: string } = { id: server.accessKeyId, secret: server.secretAccessKey },
    bucket = 'lake',
  ): Promise<string> {
    process.env['AWS_ACCESS_KEY_ID'] = keys.id;
    process.env['AWS_SECRET_ACCESS_KEY'] = keys.secret;
    const config = configOf({
      lake: { uri: `s3://${bucket}/t`, s3: { endpoint: server.endpoint, ssl: { ca: authority } } },
    });
    const store = openLake(config, null, { requests: 0, sentBytes: 0, receivedBytes: 0 });
    try {
      await store.put('k', Buffer.from('value'));
      return Buffer.from(await store.get('k')).toString();
    } finally {
      await store.close();
    }
  }

  it('is reached with the private CA', async () => {
    expect(await roundTrip(right, ca.ca)).toBe('value');
  });

  it('is refused when its certificate is of another CA, or expired', async () => {
    const refused = { code: 'STORE_ACCESS_DENIED', message: expect.stringMatching(/renew the certificate/) };
    await expect(roundTrip(right, otherCa.ca)).rejects.toMatchObject(refused);
    await expect(roundTrip(outdated, ca.ca)).rejects.toMatchObject(refused);
  });

  it('tells a wrong key, missing rights and a missing bucket apart from an unreachable store', async () => {
    await expect(roundTrip(right, ca.ca, { id: right.accessKeyId, secret: 'wrong' })).rejects.toMatchObject({
      code: 'STORE_ACCESS_DENIED',
    });
    await expect(roundTrip(right, ca.ca, { id: 'weak', secret: 'weak-secret-key' })).rejects.toMatchObject({
      code: 'STORE_ACCESS_DENIED',
    });
    await expect(roundTrip(right, ca.ca, undefined, 'no-such-bucket')).rejects.toMatchObject({
      code: 'STORE_CONTAINER_MISSING',
    });
  });
});
