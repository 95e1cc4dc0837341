/** The service's endpoint over TLS with a private CA and client certificates: right, none, of another CA, expired. */
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createCertificateAuthority, type CertificateFiles } from '../../ops/local/certificates.ts';
import { startHttp, type HttpServer } from '../../services/runtime/http.ts';
import { createMetrics } from '../../services/runtime/metrics.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const suite = await requires('the endpoint over TLS', 'openssl');

suite('the endpoint over TLS', () => {
  const folder = temporaryFolder('http-tls');
  let server: HttpServer;
  let ca: string;
  let client: CertificateFiles;
  let stranger: CertificateFiles;
  let expired: CertificateFiles;

  beforeAll(async () => {
    const authority = await createCertificateAuthority(join(folder, 'ca'));
    const other = await createCertificateAuthority(join(folder, 'other'), 'Another CA');
    ca = authority.ca;
    const own = await authority.issue('sluice');
    client = await authority.issue('console');
    expired = await authority.issue('console', { expired: true });
    stranger = await other.issue('console');
    server = await startHttp({
      host: '127.0.0.1',
      port: 0,
      token: null,
      tls: { cert: own.cert, key: own.key, ca },
      metrics: createMetrics(),
      health: { alive: () => true, notReady: () => [], status: () => Promise.resolve({}) },
    });
  });
  afterAll(async () => {
    await server.close();
  });

  function get(files: CertificateFiles | null, trusted = true): Promise<number> {
    return new Promise((resolve, reject) => {
      const call = request(
        `${server.url}/livez`,
        {
          ...(trusted ? { ca: readFileSync(ca) } : {}),
          ...(files === null ? {} : { cert: readFileSync(files.cert), key: readFileSync(files.key) }),
        },
        (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        },
      );
      call.on('error', reject);
      call.end();
    });
  }

  it('answers a client that shows a certificate of its CA', async () => {
    expect(server.url).toMatch(/^https:/);
    expect(await get(client)).toBe(200);
  });

  it('refuses a client without one, of another CA, or with an expired one', async () => {
    await expect(get(null)).rejects.toThrow();
    await expect(get(stranger)).rejects.toThrow();
    await expect(get(expired)).rejects.toThrow();
  });

  it('is not trusted without its CA', async () => {
    await expect(get(client, false)).rejects.toThrow(/certificate/);
  });
});
