/**
 * ADAPTER ObjectStore on S3 and what speaks its protocol. The only importer of the AWS SDK.
 *
 * Two clients: ordinary calls may be retried by the SDK; conditional puts never are. With retries on, the SDK answers 412
 * for our own commit when the first answer was lost: a commit would be taken for a foreign one and written again.
 */
import { createRequire } from 'node:module';
import type * as Sdk from '@aws-sdk/client-s3';
import { assertKey, compareKeys } from './key-order.ts';
import { DEFAULT_BACKOFF, backoffMs, withRetry } from './retry.ts';
import type { Backoff } from './retry.ts';
import {
  isConditionalConflict,
  isFolderGone,
  isPreconditionFailed,
  isStaleCredentials,
  describeS3Error,
  toStoreError,
} from './s3-errors.ts';
import { StoreError } from './store.ts';
import type { ByteRange, ObjectMeta, ObjectStore, PutIfAbsentResult } from './store.ts';

export interface S3StoreOptions {
  readonly bucket: string;
  /** Key prefix without slashes at its ends; empty for the whole bucket. */
  readonly prefix: string;
  /** Null: AWS. */
  readonly endpoint: string | null;
  readonly region: string;
  readonly forcePathStyle: boolean;
  /** Encrypts new objects with this KMS key. */
  readonly kmsKeyId: string | null;
  /** Asked again after an authentication failure. Null: the SDK's default chain. */
  readonly credentials?: (() => Promise<S3Credentials>) | null;
  /** PEM texts. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string } | null;
  /** Called once a request, for counters; must not throw. */
  readonly onRequest?: (request: StoreRequest) => void;
  readonly requestTimeoutMs?: number;
  readonly backoff?: Backoff;
}

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface StoreRequest {
  readonly operation: 'get' | 'head' | 'list' | 'put' | 'put-if-absent' | 'delete';
  readonly ok: boolean;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly elapsedMs: number;
}

let loaded: typeof Sdk | null = null;

/** Loaded by the first store: the SDK is a sixth of the start of a process, and one with a lake on a disk has no use for it. */
function sdk(): typeof Sdk {
  loaded ??= createRequire(import.meta.url)('@aws-sdk/client-s3') as typeof Sdk;
  return loaded;
}

const REQUEST_TIMEOUT_MS = 60_000;
const CONNECT_TIMEOUT_MS = 5_000;
const SDK_ATTEMPTS = 4;
const SOCKETS_MAX = 64;
const LIST_PAGE = 1_000;
const DELETE_PAGE = 1_000;

interface Clients {
  readonly retrying: Sdk.S3Client;
  /** For conditional puts: one attempt, and a time-out that throws. */
  readonly once: Sdk.S3Client;
}

export function createS3Store(options: S3StoreOptions): ObjectStore {
  const base = options.prefix === '' ? '' : `${options.prefix}/`;
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  let clients = connect(options);
  const at = placeOf(options);

  /** One counted call; after an authentication failure once more, with credentials asked for anew. */
  const call = async <T>(
    operation: StoreRequest['operation'],
    sentBytes: number,
    run: (clients: Clients) => Promise<{ readonly value: T; readonly receivedBytes: number }>,
  ): Promise<T> => {
    for (let renewed = false; ; renewed = true) {
      const used = clients;
      const started = performance.now();
      const count = (ok: boolean, receivedBytes: number): void =>
        options.onRequest?.({ operation, ok, sentBytes, receivedBytes, elapsedMs: performance.now() - started });
      try {
        const { value, receivedBytes } = await run(used);
        count(true, receivedBytes);
        return value;
      } catch (error) {
        count(false, 0);
        if (renewed || !isStaleCredentials(error)) throw error;
        if (clients === used) clients = connect(options);
      }
    }
  };

  const putOnce = async (key: string, body: Uint8Array, conditional: boolean): Promise<void> => {
    assertKey(key);
    const command = new (sdk().PutObjectCommand)({
      Bucket: options.bucket,
      Key: base + key,
      Body: body,
      ContentLength: body.length,
      ...(conditional ? { IfNoneMatch: '*' } : {}),
      ...(options.kmsKeyId === null ? {} : { ServerSideEncryption: 'aws:kms' as const, SSEKMSKeyId: options.kmsKeyId }),
    });
    const send = (): Promise<null> =>
      call(conditional ? 'put-if-absent' : 'put', body.length, async ({ retrying, once }) => {
        await (conditional ? once : retrying).send(command);
        return { value: null, receivedBytes: 0 };
      });
    await withRetry(send, isFolderGone, backoff);
  };

  return {
    uri: `s3://${options.bucket}${options.prefix === '' ? '' : `/${options.prefix}`}`,
    get: (key, range) =>
      call('get', 0, async ({ retrying }) => {
        const value = await getObject(retrying, options.bucket, base + key, key, range);
        return { value, receivedBytes: value.length };
      }).catch((error: unknown) => {
        throw missingObject(error, key) ?? toStoreError(error, key, at, 'read');
      }),
    head: async (key) => {
      try {
        return await call('head', 0, async ({ retrying }) => {
          const found = await retrying.send(new (sdk().HeadObjectCommand)({ Bucket: options.bucket, Key: base + key }));
          const meta = { key, sizeBytes: found.ContentLength ?? 0, modifiedMs: found.LastModified?.getTime() ?? 0 };
          return { value: meta, receivedBytes: 0 };
        });
      } catch (error) {
        // A HEAD answer has no body, so a missing bucket looks the same; the next read or write names it.
        if (describeS3Error(error).status === 404) return null;
        throw toStoreError(error, key, at, 'look at');
      }
    },
    list: (prefix, listOptions) => {
      const page = (token: string | null, after: string | undefined) =>
        call('list', 0, async ({ retrying }) => {
          const value = await retrying.send(
            new (sdk().ListObjectsV2Command)({
              Bucket: options.bucket,
              Prefix: base + prefix,
              MaxKeys: LIST_PAGE,
              ...(token === null ? {} : { ContinuationToken: token }),
              ...(token !== null || after === undefined ? {} : { StartAfter: base + after }),
            }),
          );
          return { value, receivedBytes: 0 };
        }).catch((error: unknown) => {
          throw missingBucket(error, prefix, at) ?? toStoreError(error, prefix, at, 'list');
        });
      // Directory buckets list in no order and know no start.
      const ordered = !options.bucket.endsWith('--x-s3');
      const pages = listPages(prefix, base, ordered ? listOptions?.startAfter : undefined, page);
      return ordered ? pages : sorted(pages, listOptions?.startAfter);
    },
    put: async (key, body) => {
      try {
        await putOnce(key, body, false);
      } catch (error) {
        throw missingBucket(error, key, at) ?? toStoreError(error, key, at, 'write');
      }
    },
    putIfAbsent: async (key, body): Promise<PutIfAbsentResult> => {
      for (let attempt = 0; ; attempt++) {
        try {
          await putOnce(key, body, true);
          return 'created';
        } catch (error) {
          if (isPreconditionFailed(error)) return 'exists';
          if (isConditionalConflict(error)) {
            // Another conditional request is in flight and nothing is settled: the very same put again.
            if (attempt + 1 < backoff.attemptsMax) {
              await backoff.sleep(backoffMs(backoff, attempt));
              continue;
            }
            throw new StoreError('STORE_OUTCOME_UNKNOWN', key, `"${key}" stayed in conflict with another request`, {
              cause: error,
            });
          }
          throw missingBucket(error, key, at) ?? toStoreError(error, key, at, 'create', true);
        }
      }
    },
    delete: async (keys) => {
      for (let from = 0; from < keys.length; from += DELETE_PAGE) {
        const page = keys.slice(from, from + DELETE_PAGE);
        await deletePage(page, options.bucket, base, call).catch((error: unknown) => {
          const [first = ''] = page;
          throw missingBucket(error, first, at) ?? toStoreError(error, first, at, 'delete');
        });
      }
    },
    close: async () => {
      clients.retrying.destroy();
      clients.once.destroy();
    },
  };
}

function connect(options: S3StoreOptions): Clients {
  const tls = options.tls ?? {};
  const timeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
  const config: Sdk.S3ClientConfig & { readonly ignoreCache: boolean } = {
    // Credentials files are read again by every new client: they may have been rotated.
    ignoreCache: true,
    region: options.region,
    forcePathStyle: options.forcePathStyle,
    ...(options.endpoint === null ? {} : { endpoint: options.endpoint }),
    ...(options.credentials == null ? {} : { credentials: options.credentials }),
    // Other servers than AWS do not all take the newer checksum headers.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      // Alone, requestTimeout only logs a warning and the call hangs on.
      throwOnRequestTimeout: true,
      httpAgent: { keepAlive: true, maxSockets: SOCKETS_MAX },
      httpsAgent: { keepAlive: true, maxSockets: SOCKETS_MAX, ...tls },
    },
  };
  return {
    retrying: new (sdk().S3Client)({ ...config, maxAttempts: SDK_ATTEMPTS }),
    once: new (sdk().S3Client)({ ...config, maxAttempts: 1 }),
  };
}

async function getObject(
  client: Sdk.S3Client,
  bucket: string,
  fullKey: string,
  key: string,
  range: ByteRange | undefined,
): Promise<Uint8Array> {
  if (range !== undefined && range.end <= range.start) {
    if (range.end < range.start || range.start < 0) throw truncated(key, range, 0);
    return new Uint8Array(0);
  }
  const answer = await client.send(
    new (sdk().GetObjectCommand)({
      Bucket: bucket,
      Key: fullKey,
      ...(range === undefined ? {} : { Range: `bytes=${range.start}-${range.end - 1}` }),
    }),
  );
  const body = (await answer.Body?.transformToByteArray()) ?? new Uint8Array(0);
  const wanted = range === undefined ? answer.ContentLength : range.end - range.start;
  if (wanted !== undefined && body.length !== wanted) throw truncated(key, range, body.length);
  return body;
}

function truncated(key: string, range: ByteRange | undefined, got: number): StoreError {
  const asked = range === undefined ? 'the whole object' : `bytes ${range.start}..${range.end}`;
  return new StoreError('STORE_TRUNCATED', key, `asked for ${asked} of "${key}", got ${got} bytes`);
}

interface Page {
  readonly Contents?:
    | readonly { Key?: string | undefined; Size?: number | undefined; LastModified?: Date | undefined }[]
    | undefined;
  readonly IsTruncated?: boolean | undefined;
  readonly NextContinuationToken?: string | undefined;
}

async function* listPages(
  prefix: string,
  base: string,
  startAfter: string | undefined,
  page: (token: string | null, after: string | undefined) => Promise<Page>,
): AsyncIterable<ObjectMeta> {
  let token: string | null = null;
  do {
    const answer = await page(token, startAfter);
    for (const { Key: key, Size: size, LastModified: modified } of answer.Contents ?? []) {
      // A key that ends in a slash is a console's "folder", no object of ours.
      if (key === undefined || key.endsWith('/')) continue;
      yield { key: key.slice(base.length), sizeBytes: size ?? 0, modifiedMs: modified?.getTime() ?? 0 };
    }
    if (answer.IsTruncated === true && answer.NextContinuationToken === undefined) {
      throw new StoreError('STORE_TRUNCATED', prefix, `the listing of "${prefix}" broke off without a way to go on`);
    }
    token = answer.IsTruncated === true ? (answer.NextContinuationToken ?? null) : null;
  } while (token !== null);
}

async function* sorted(pages: AsyncIterable<ObjectMeta>, startAfter: string | undefined): AsyncIterable<ObjectMeta> {
  const all: ObjectMeta[] = [];
  for await (const meta of pages) if (startAfter === undefined || compareKeys(meta.key, startAfter) > 0) all.push(meta);
  yield* all.sort((a, b) => compareKeys(a.key, b.key));
}

async function deletePage(
  keys: readonly string[],
  bucket: string,
  base: string,
  call: <T>(
    operation: 'delete',
    sentBytes: number,
    run: (clients: Clients) => Promise<{ readonly value: T; readonly receivedBytes: number }>,
  ) => Promise<T>,
): Promise<void> {
  if (keys.length === 0) return;
  const answer = await call('delete', 0, async ({ retrying }) => {
    const objects = keys.map((key) => ({ Key: base + key }));
    const value = await retrying.send(
      new (sdk().DeleteObjectsCommand)({ Bucket: bucket, Delete: { Objects: objects, Quiet: true } }),
    );
    return { value, receivedBytes: 0 };
  });
  const failed = answer.Errors?.find(({ Code }) => Code !== 'NoSuchKey');
  if (failed !== undefined) {
    const code = failed.Code === 'AccessDenied' ? 'STORE_ACCESS_DENIED' : 'STORE_UNAVAILABLE';
    const key = (failed.Key ?? '').slice(base.length);
    throw new StoreError(code, key, `cannot delete "${key}": ${failed.Code ?? 'unknown error'}`);
  }
}

/** Bucket and server, for messages; an endpoint's credentials are left out. */
function placeOf({ bucket, endpoint }: Pick<S3StoreOptions, 'bucket' | 'endpoint'>): string {
  const server = endpoint === null || !URL.canParse(endpoint) ? '' : ` at ${new URL(endpoint).host}`;
  return `s3://${bucket}${server}`;
}

/** 404 on a write or listing can only be the bucket. */
function missingBucket(error: unknown, key: string, at: string): StoreError | null {
  if (describeS3Error(error).status !== 404) return null;
  return new StoreError(
    'STORE_CONTAINER_MISSING',
    key,
    `there is no ${at}: the bucket does not exist; create it, or correct lake.uri`,
    {
      cause: error,
    },
  );
}

function missingObject(error: unknown, key: string): StoreError | null {
  const { name, status } = describeS3Error(error);
  if (status !== 404 || name === 'NoSuchBucket') return null;
  return new StoreError('STORE_NOT_FOUND', key, `no object at "${key}"`, { cause: error });
}
