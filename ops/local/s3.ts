/**
 * An S3 server on this machine without Docker: versitygw on a folder, built with Go, for tests and benchmarks. It honours
 * conditional puts (`If-None-Match: *`): of twenty that raced, one succeeded and nineteen got 412.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { userCacheFolder } from './cache-folder.ts';
import { fetchOnce } from './fetch-once.ts';
import { freePort } from './free-port.ts';
import { LocalServerError } from './local-server-error.ts';
import { restartable } from './restartable-server.ts';
import { startServerProcess } from './server-process.ts';
import type { ServerProcess } from './server-process.ts';
import { runTool } from './toolchain.ts';

export const VERSITYGW_VERSION = 'v1.8.0';
const START_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 60_000;

export interface S3Options {
  /** Kept after stop. Default: a temporary folder, removed on stop. */
  readonly dataDir?: string;
  readonly accessKeyId?: string;
  readonly secretAccessKey?: string;
  /** PEM files; the endpoint is then https. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly cache?: string;
}

export interface S3Server {
  /** `http://127.0.0.1:<port>`; use path-style addressing and region us-east-1. */
  readonly endpoint: string;
  readonly region: 'us-east-1';
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly dataDir: string;
  readonly running: boolean;
  /** Makes an (empty) bucket. */
  createBucket(name: string): Promise<void>;
  /** An account with no rights on any bucket, for tests of refused access. */
  createAccount(accessKeyId: string, secretAccessKey: string): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
}

/** The gateway's program, built with Go on first use (about a minute and a half). @throws SERVER_UNAVAILABLE */
export async function fetchS3(cache: string = userCacheFolder()): Promise<string> {
  const folder = await fetchOnce(resolve(cache), `versitygw-${VERSITYGW_VERSION}`, async (staging) => {
    await runTool('go', ['install', `github.com/versity/versitygw/cmd/versitygw@${VERSITYGW_VERSION}`], {
      env: { GOBIN: staging },
      what: `building the S3 server versitygw ${VERSITYGW_VERSION}`,
    });
  });
  return join(folder, process.platform === 'win32' ? 'versitygw.exe' : 'versitygw');
}

/** @throws LocalServerError */
export async function startS3(options: S3Options = {}): Promise<S3Server> {
  const program = await fetchS3(options.cache);
  const temporary = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'sluice-s3-')) : null;
  const folder = temporary ?? resolve(options.dataDir ?? '');
  const port = await freePort();
  const accessKeyId = options.accessKeyId ?? 'sluice';
  const secretAccessKey = options.secretAccessKey ?? randomBytes(18).toString('base64url');
  const endpoint = `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const keys = { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey };
  const tls = options.tls === undefined ? [] : ['--cert', options.tls.cert, '--key', options.tls.key];
  const start = async (): Promise<ServerProcess> => {
    const server = startServerProcess({
      name: 'the S3 server',
      command: program,
      args: ['--port', `127.0.0.1:${port}`, '--quiet', '--keep-alive', '--iam-dir', join(folder, 'iam'), ...tls].concat(
        ['posix', '--sidecar', join(folder, 'metadata'), join(folder, 'buckets')],
      ),
      env: { ...process.env, ...keys },
      cwd: folder,
      logFile: join(folder, 's3.log'),
      ...(temporary === null ? {} : { removeOnExit: temporary }),
    });
    await untilListening(server, port);
    return server;
  };
  try {
    for (const name of ['iam', 'metadata', 'buckets']) await mkdir(join(folder, name), { recursive: true });
    const server = await restartable(start, STOP_TIMEOUT_MS);
    return {
      endpoint,
      region: 'us-east-1',
      accessKeyId,
      secretAccessKey,
      dataDir: folder,
      get running() {
        return server.running;
      },
      createBucket: async (name) => {
        // Every folder below the gateway's root is a bucket.
        await mkdir(join(folder, 'buckets', name), { recursive: true });
      },
      async createAccount(access, secret) {
        const account = ['create-user', '--access', access, '--secret', secret, '--role', 'user'];
        const admin = ['admin', '--access', accessKeyId, '--secret', secretAccessKey, '--endpoint-url', endpoint];
        const insecure = options.tls === undefined ? [] : ['--allow-insecure'];
        await runTool(program, [...admin, ...insecure, ...account], { what: 'creating an S3 account' });
      },
      async stop() {
        await server.stop();
        if (temporary !== null) await rm(temporary, { recursive: true, force: true, maxRetries: 5 });
      },
      kill: server.kill,
      restart: server.restart,
      pause: server.pause,
      resume: server.resume,
    };
  } catch (error) {
    if (temporary !== null) await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

async function untilListening(server: ServerProcess, port: number): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await accepts(port))) {
    if (server.running && Date.now() < deadline) {
      await sleep(30);
      continue;
    }
    await server.kill();
    throw new LocalServerError('SERVER_START_FAILED', `the S3 server did not start:\n${server.logTail()}`);
  }
}

async function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => {
      resolve(false);
    });
  });
}
