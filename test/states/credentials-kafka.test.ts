/**
 * CREDENTIALS(log), for real: the password of a SCRAM user is changed at the broker under a running pipeline. Status names it,
 * nothing stops for good, and the new password is picked up from its file without a restart.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createCertificateAuthority } from '../../ops/local/certificates.ts';
import { fetchKafka, startKafka, type KafkaServer } from '../../ops/local/kafka.ts';
import { runTool } from '../../ops/local/toolchain.ts';
import { cacheFolder } from '../support/cache.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('a Kafka password that is changed', 'pg18', 'kafka', 'openssl');

suite('a Kafka password that is changed', () => {
  const folder = temporaryFolder('credentials-kafka');
  let database: TestDatabase;
  let kafka: KafkaServer;
  let pipeline: SluiceService;

  const givePassword = (text: string): void => writeFileSync(join(folder, 'password'), `${text}\n`);
  const changePassword = async (text: string): Promise<void> => {
    const tool = ['-cp', join(await fetchKafka(cacheFolder()), '*'), 'kafka.admin.ConfigCommand'];
    const user = ['--bootstrap-server', kafka.brokers[0] ?? '', '--entity-type', 'users', '--entity-name', 'app'];
    const args = ['--alter', '--add-config', `SCRAM-SHA-512=[password=${text}]`];
    await runTool('java', ['-Xmx128m', '-XX:TieredStopAtLevel=1', ...tool, ...user, ...args], { what: 'a password' });
  };

  beforeAll(async () => {
    const ca = await createCertificateAuthority(join(folder, 'ca'));
    const { keystore } = await ca.issue('localhost');
    kafka = await startKafka({
      cache: cacheFolder(),
      heapMb: 256,
      security: { ca: ca.ca, keystore, sasl: { users: { app: 'first' } } },
    });
    database = await getPostgres();
    givePassword('first');
    pipeline = await createService(
      folder,
      `name: sasl
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s}
log: {kind: kafka, brokers: ["${kafka.saslBrokers?.[0]}"], ssl: {enabled: true, ca: "${ca.ca}"},
  sasl: {mechanism: scram-sha-512, username: app, password: "\${file:${join(folder, 'password')}}"}}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(
      `create table t (id int primary key, v text); insert into t select i, 'v' from generate_series(1, 50) i`,
    );
    await pipeline.start();
    await waitFor('the first snapshot', () => pipeline.equal(), { everyMs: 300 });
  });
  afterAll(async () => {
    try {
      await pipeline.stop();
    } finally {
      await kafka.stop();
      await database.close();
    }
  });

  it('is CREDENTIALS(log), and passes with the right one in its file', async () => {
    await changePassword('second');
    // Sessions that were open before would live on.
    await kafka.restart();
    await database.query(`update t set v = 'while the password is wrong' where id < 10`);
    const { code } = statePage('CREDENTIALS', '');
    const shown = await waitFor(
      'the state',
      async () => {
        const now = await pipeline.sluice('status');
        return now.out.includes(`${code} CREDENTIALS(log)`) ? now : null;
      },
      { everyMs: 300 },
    );
    expect(shown.code).toBe(3);
    expect(await pipeline.metrics()).toContain('sluice_trouble{state="CREDENTIALS(log)"} 1');
    expect((await pipeline.status())?.tables.map(({ why }) => why)).toEqual([null]);
    givePassword('second');
    await waitFor('the lake to be equal again', () => pipeline.equal(), { everyMs: 300 });
    await waitFor('the state to go', async () => (await pipeline.sluice('status')).code === 0);
  });
});
