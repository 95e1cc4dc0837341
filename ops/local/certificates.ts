/**
 * A private certificate authority with server, client and expired certificates, made with the `openssl` program, for tests of
 * TLS connections and for trying the compose stack with TLS. Keys are P-256, unencrypted PKCS #8; files are PEM.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runTool } from './toolchain.ts';

export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
  /** Certificate, CA and key in one file, as Kafka's PEM keystore wants them. */
  readonly keystore: string;
}

export interface CertificateAuthority {
  /** The CA's certificate. */
  readonly ca: string;
  /**
   * A certificate signed by this CA for the common name, with 127.0.0.1 and localhost (or `hosts`) as alternative names.
   * `expired`: valid until yesterday.
   */
  issue(commonName: string, options?: { hosts?: readonly string[]; expired?: boolean }): Promise<CertificateFiles>;
}

const DAY_MS = 86_400_000;

/** @throws LocalServerError SERVER_UNAVAILABLE when there is no openssl */
export async function createCertificateAuthority(
  folder: string,
  name = 'Sluice test CA',
): Promise<CertificateAuthority> {
  await mkdir(folder, { recursive: true });
  const ca = join(folder, 'ca.pem');
  const caKey = join(folder, 'ca.key');
  const openssl = async (...args: string[]): Promise<string> =>
    runTool('openssl', args, { what: 'making certificates' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await openssl('req', '-x509', ...newKey, '-keyout', caKey, '-out', ca, '-days', '30', '-subj', `/CN=${name}`);
  // `openssl ca` (not `x509 -req`) because only it takes both dates of the validity in every version in use.
  await writeFile(join(folder, 'index.txt'), '');
  await writeFile(join(folder, 'ca.cnf'), authorityConfig(folder));
  let issued = 0;
  return {
    ca,
    async issue(commonName, { hosts = ['127.0.0.1', 'localhost'], expired = false } = {}) {
      const base = join(folder, `${++issued}-${commonName.replace(/[^A-Za-z0-9]/g, '-')}${expired ? '-expired' : ''}`);
      const files = { cert: `${base}.pem`, key: `${base}.key`, keystore: `${base}.keystore.pem` };
      await openssl('req', ...newKey, '-keyout', files.key, '-out', `${base}.csr`, '-subj', `/CN=${commonName}`);
      const names = hosts.map((host) => `${/^[0-9.]+$|:/.test(host) ? 'IP' : 'DNS'}:${host}`).join(',');
      await writeFile(`${base}.ext`, `subjectAltName=${names}\nextendedKeyUsage=serverAuth,clientAuth\n`);
      const now = Date.now();
      const from = asnTime(now - (expired ? 10 : 1) * DAY_MS);
      const to = asnTime(now + (expired ? -1 : 20) * DAY_MS);
      const config = ['-batch', '-notext', '-config', join(folder, 'ca.cnf'), '-cert', ca, '-keyfile', caKey];
      const validity = ['-startdate', from, '-enddate', to, '-extfile', `${base}.ext`];
      await openssl('ca', ...config, ...validity, '-in', `${base}.csr`, '-out', files.cert);
      const parts = await Promise.all([files.cert, ca, files.key].map(async (path) => readFile(path, 'utf8')));
      await writeFile(files.keystore, parts.join(''), { mode: 0o600 });
      return files;
    },
  };
}

/** `20260102030405Z` */
function asnTime(timeMs: number): string {
  return `${new Date(timeMs).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`;
}

function authorityConfig(folder: string): string {
  return `[ca]
default_ca = own
[own]
database = ${join(folder, 'index.txt')}
new_certs_dir = ${folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
`;
}
