/**
 * The S3 adapter against a real server: the one that SLUICE_TEST_S3_ENDPOINT names (with SLUICE_TEST_S3_BUCKET,
 * SLUICE_TEST_S3_REGION and credentials from the SDK's default chain), or the local one that all tests share.
 */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { probeConditionalPut } from '../../lakehouse/store/probe.ts';
import { createS3Store } from '../../lakehouse/store/s3-store.ts';
import type { S3StoreOptions, StoreRequest } from '../../lakehouse/store/s3-store.ts';
import { requires } from '../support/requirements.ts';
import { getS3 } from '../support/s3.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { registerStoreSuite } from './register-store-suite.ts';

const temporary = temporaryFolder('credentials');
const given = process.env['SLUICE_TEST_S3_ENDPOINT'];
const suite = given === undefined ? await requires('the S3 store', 's3') : describe;
const server = given === undefined && suite === describe ? await getS3() : null;

function settings(prefix: string): S3StoreOptions {
  return {
    bucket: server?.bucket ?? process.env['SLUICE_TEST_S3_BUCKET'] ?? 'lake',
    prefix,
    endpoint: given ?? server?.endpoint ?? null,
    region: process.env['SLUICE_TEST_S3_REGION'] ?? 'us-east-1',
    forcePathStyle: true,
    kmsKeyId: null,
    credentials: server === null ? null : async () => server,
    backoff: { attemptsMax: 3, baseMs: 1, capMs: 5, sleep: async () => {}, random: () => 0 },
  };
}

suite('the S3 store on a server', () => {
  registerStoreSuite({
    name: 'the S3 store',
    open: async () => ({ store: createS3Store(settings(`suite-${randomUUID()}`)), undo: async () => {} }),
  });
});

suite('the S3 store', () => {
  it('names a missing bucket and refused credentials', async () => {
    const nowhere = createS3Store({ ...settings('x'), bucket: `absent-${randomUUID()}` });
    const body = new TextEncoder().encode('x');
    await expect(nowhere.putIfAbsent('k', body)).rejects.toMatchObject({ code: 'STORE_CONTAINER_MISSING' });
    await expect(nowhere.put('k', body)).rejects.toMatchObject({
      code: 'STORE_CONTAINER_MISSING',
      message: expect.stringMatching(/s3:\/\/absent-.* at 127/),
    });
    await expect(nowhere.get('k')).rejects.toMatchObject({ code: 'STORE_CONTAINER_MISSING' });
    await expect(nowhere.list('')[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'STORE_CONTAINER_MISSING',
    });
    const stranger = createS3Store({
      ...settings('x'),
      credentials: async () => ({ accessKeyId: 'nobody', secretAccessKey: 'wrong' }),
    });
    await expect(stranger.get('k')).rejects.toMatchObject({ code: 'STORE_ACCESS_DENIED' });
    await expect(stranger.putIfAbsent('k', body)).rejects.toMatchObject({ code: 'STORE_ACCESS_DENIED' });
  });

  it('asks for credentials again after they were refused', async () => {
    const good = settings('renewed');
    if (good.credentials == null) return;
    let asked = 0;
    const store = createS3Store({
      ...good,
      credentials: async () => {
        asked++;
        return asked === 1
          ? { accessKeyId: 'expired', secretAccessKey: 'expired' }
          : ((await good.credentials?.()) ?? { accessKeyId: '', secretAccessKey: '' });
      },
    });
    expect(await store.putIfAbsent('k', new TextEncoder().encode('x'))).toBe('created');
    expect(asked).toBe(2);
  });

  it('reads a rotated credentials file again', async () => {
    if (server === null) return;
    const file = join(temporary, 'credentials');
    const write = (id: string, secret: string): void =>
      writeFileSync(file, `[default]\naws_access_key_id=${id}\naws_secret_access_key=${secret}\n`);
    const before = { ...process.env };
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']) delete process.env[name];
    process.env['AWS_SHARED_CREDENTIALS_FILE'] = file;
    try {
      write('old', 'old');
      const store = createS3Store({ ...settings('rotated'), credentials: null });
      await expect(store.put('k', new Uint8Array(1))).rejects.toMatchObject({ code: 'STORE_ACCESS_DENIED' });
      write(server.accessKeyId, server.secretAccessKey);
      await store.put('k', new Uint8Array(1));
      await store.close();
    } finally {
      process.env = before;
    }
  });

  it('counts its requests', async () => {
    const seen: StoreRequest[] = [];
    const store = createS3Store({ ...settings(`count-${randomUUID()}`), onRequest: (request) => seen.push(request) });
    await store.put('k', new TextEncoder().encode('12345'));
    await store.get('k', { start: 1, end: 3 });
    await store.get('absent').catch(() => {});
    expect(
      seen.map(({ operation, ok, sentBytes, receivedBytes }) => ({ operation, ok, sentBytes, receivedBytes })),
    ).toEqual([
      { operation: 'put', ok: true, sentBytes: 5, receivedBytes: 0 },
      { operation: 'get', ok: true, sentBytes: 0, receivedBytes: 2 },
      { operation: 'get', ok: false, sentBytes: 0, receivedBytes: 0 },
    ]);
  });
});

describe('the S3 store, answered by a server that misbehaves', () => {
  let requests = 0;
  let answer: (count: number) => { status: number; code: string } | 'reset' | 'ok' = () => 'ok';
  const fake = createServer((request, response) => {
    const count = ++requests;
    request.resume();
    request.on('end', () => {
      const what = answer(count);
      if (what === 'reset') request.socket.destroy();
      else if (what === 'ok') response.writeHead(200).end();
      else
        response
          .writeHead(what.status, { 'content-type': 'application/xml' })
          .end(`<Error><Code>${what.code}</Code></Error>`);
    });
  });
  let store: ReturnType<typeof createS3Store>;
  beforeAll(async () => {
    await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
    store = createS3Store({
      ...settings('x'),
      endpoint: `http://127.0.0.1:${(fake.address() as AddressInfo).port}`,
      credentials: async () => ({ accessKeyId: 'k', secretAccessKey: 's' }),
    });
  });
  afterAll(async () => {
    await store.close();
    await new Promise((resolve) => fake.close(resolve));
  });
  const put = async (script: typeof answer): Promise<unknown> => {
    requests = 0;
    answer = script;
    return store.putIfAbsent('k', new TextEncoder().encode('x')).catch((error: { code: string }) => error.code);
  };

  it.each([
    [412, 'PreconditionFailed', 'exists'],
    [500, 'InternalError', 'STORE_OUTCOME_UNKNOWN'],
    [503, 'ServiceUnavailable', 'STORE_OUTCOME_UNKNOWN'],
    [503, 'SlowDown', 'STORE_THROTTLED'],
    [403, 'AccessDenied', 'STORE_ACCESS_DENIED'],
    [404, 'NoSuchBucket', 'STORE_CONTAINER_MISSING'],
    [301, 'PermanentRedirect', 'STORE_BAD_URI'],
    [501, 'NotImplemented', 'STORE_CONDITION_IGNORED'],
  ])('takes %i %s of a conditional put as %s, after one request', async (status, code, outcome) => {
    expect(await put(() => ({ status, code }))).toBe(outcome);
    expect(requests).toBe(1);
  });

  it('takes a dropped connection as unknown, after one request', async () => {
    expect(await put(() => 'reset')).toBe('STORE_OUTCOME_UNKNOWN');
    expect(requests).toBe(1);
  });

  it('puts again after 409, which settles nothing', async () => {
    expect(await put((count) => (count < 3 ? { status: 409, code: 'ConditionalRequestConflict' } : 'ok'))).toBe(
      'created',
    );
    expect(requests).toBe(3);
    expect(await put(() => ({ status: 409, code: 'ConditionalRequestConflict' }))).toBe('STORE_OUTCOME_UNKNOWN');
  });

  it('puts again when the folder of the object went at that moment, as one server tells it', async () => {
    const gone = { status: 409, code: 'ExistingObjectIsDirectory' };
    expect(await put((count) => (count < 3 ? gone : 'ok'))).toBe('created');
    expect(requests).toBe(3);
    requests = 0;
    await store.put('k', new TextEncoder().encode('x'));
    expect(requests).toBe(3);
    expect(await put(() => gone)).toMatch(/^STORE_/);
  });

  it('refuses by name a store that ignores the condition', async () => {
    answer = () => 'ok';
    await expect(probeConditionalPut(store)).rejects.toMatchObject({ code: 'STORE_CONDITION_IGNORED' });
  });

  it.each([
    ['shorter than announced', 'cut'],
    ['of the wrong length for the range', 'wrong-length'],
  ] as const)('never hands out a body %s', async (_name, how) => {
    const server = createServer((_request, response) => {
      if (how === 'cut') {
        response.writeHead(206, { 'content-length': '10' });
        response.write('0123');
        setTimeout(() => response.destroy(), 20);
      } else response.writeHead(206, { 'content-length': '4' }).end('0123');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const cut = createS3Store({
      ...settings('x'),
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      credentials: async () => ({ accessKeyId: 'k', secretAccessKey: 's' }),
    });
    const failed = await cut.get('k', { start: 0, end: 10 }).catch((error: { code: string }) => error.code);
    expect(['STORE_TRUNCATED', 'STORE_UNAVAILABLE']).toContain(failed);
    await cut.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it('gives up on a server that never answers, without having to ask twice', async () => {
    const server = createServer(() => {});
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const mute = createS3Store({
      ...settings('x'),
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      credentials: async () => ({ accessKeyId: 'k', secretAccessKey: 's' }),
      requestTimeoutMs: 200,
    });
    await expect(mute.putIfAbsent('k', new Uint8Array(1))).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' });
    await mute.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it('says that a server which is not there is unavailable', async () => {
    const gone = createS3Store({
      ...settings('x'),
      endpoint: 'http://127.0.0.1:1',
      credentials: async () => ({ accessKeyId: 'k', secretAccessKey: 's' }),
    });
    await expect(gone.putIfAbsent('k', new Uint8Array(1))).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  });
});
