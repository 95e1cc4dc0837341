/** What the AWS SDK throws, as `StoreError`s. The codes a store answers say more than the status alone. */
import { StoreError } from './store.ts';
import type { StoreErrorCode } from './store.ts';

/** Codes of credentials that were good once: new ones may be (assumed roles, rotated keys). */
const STALE_CREDENTIALS = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'TokenRefreshRequired',
  'InvalidToken',
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'RequestTimeTooSkewed',
]);

const THROTTLES = new Set(['SlowDown', 'ThrottlingException', 'Throttling', 'RequestLimitExceeded', 'TooManyRequests']);

/** Requests that were slow, or cut off on their way: S3 says 400 of them. */
const CUT_OFF = new Set(['RequestTimeout', 'RequestTimeoutException', 'IncompleteBody']);

/** Failures before a byte was sent: the request cannot have been carried out. */
const NOT_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'CredentialsProviderError',
]);

interface Described {
  readonly name: string;
  /** HTTP status; null when there was no answer. */
  readonly status: number | null;
}

export function describeS3Error(error: unknown): Described {
  if (!(error instanceof Error)) return { name: 'unknown', status: null };
  const metadata = '$metadata' in error ? error.$metadata : null;
  const status =
    typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata ? metadata.httpStatusCode : null;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
  const answered = typeof status === 'number';
  return { name: answered ? error.name : (code ?? error.name), status: answered ? status : null };
}

export function isStaleCredentials(error: unknown): boolean {
  return STALE_CREDENTIALS.has(describeS3Error(error).name);
}

/** A conditional put met another one in flight: nothing is settled, the same put may be tried again. */
export function isConditionalConflict(error: unknown): boolean {
  const { name, status } = describeS3Error(error);
  return (
    status === 409 && (name === 'ConditionalRequestConflict' || name === 'OperationAborted' || name === 'Conflict')
  );
}

/**
 * versitygw on a file system: its folders go with their last object, and one that goes while something is put into it is told as
 * a folder that stands in the way. The same put makes the folder again, or, where it was stored after all, meets itself.
 */
export function isFolderGone(error: unknown): boolean {
  const { name, status } = describeS3Error(error);
  return status === 409 && name === 'ExistingObjectIsDirectory';
}

export function isPreconditionFailed(error: unknown): boolean {
  return describeS3Error(error).status === 412;
}

/**
 * @param at bucket and server
 * @param action `read`, `write`, …; for the message
 * @param unsettled whether a call without a clear answer may have been carried out (conditional puts)
 */
export function toStoreError(error: unknown, key: string, at: string, action: string, unsettled = false): StoreError {
  if (error instanceof StoreError) return error;
  const { name, status } = describeS3Error(error);
  const code = codeFor(name, status, unsettled);
  const answer = status === null ? name : `${status} ${name}`;
  const hint = REFUSED_CERTIFICATE.test(name) ? CERTIFICATE_HINT : (HINTS[code] ?? '');
  return new StoreError(code, key, `cannot ${action} "${key}" in ${at}: ${answer}${hint}`, {
    cause: error,
  });
}

/** Errors of TLS: no request was sent over such a connection. */
const REFUSED_CERTIFICATE =
  /^(CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO_(GET|VERIFY)|HOSTNAME_MISMATCH|INVALID_CA|ERR_TLS|ERR_SSL|EPROTO)/;
const CERTIFICATE_HINT = '; renew the certificate, or name its CA in lake.s3.ssl.ca';

const HINTS: Partial<Record<StoreErrorCode, string>> = {
  STORE_CONTAINER_MISSING: '; create the bucket, or correct lake.uri',
  STORE_ACCESS_DENIED: '; check the credentials and the policy of the bucket',
  STORE_BAD_URI: '; check lake.uri, lake.s3.region and lake.s3.endpoint',
};

function codeFor(name: string, status: number | null, unsettled: boolean): StoreErrorCode {
  if (THROTTLES.has(name) || status === 429) return 'STORE_THROTTLED';
  if (name === 'NoSuchBucket') return 'STORE_CONTAINER_MISSING';
  if (status === null && REFUSED_CERTIFICATE.test(name)) return 'STORE_ACCESS_DENIED';
  if (status === null) return unsettled && !NOT_SENT.has(name) ? 'STORE_OUTCOME_UNKNOWN' : unanswered(name);
  if (STALE_CREDENTIALS.has(name)) return 'STORE_ACCESS_DENIED';
  if (status === 401 || status === 403) return 'STORE_ACCESS_DENIED';
  if (status === 404) return 'STORE_NOT_FOUND';
  if (status === 416) return 'STORE_TRUNCATED';
  if (status === 507) return 'STORE_DISK_FULL';
  if (status === 501 && unsettled) return 'STORE_CONDITION_IGNORED';
  if (status >= 500 || status === 408 || CUT_OFF.has(name))
    return unsettled ? 'STORE_OUTCOME_UNKNOWN' : 'STORE_UNAVAILABLE';
  if (status >= 300 && status < 400) return 'STORE_BAD_URI';
  return status === 400 ? 'STORE_BAD_URI' : 'STORE_UNAVAILABLE';
}

function unanswered(name: string): StoreErrorCode {
  return name === 'CredentialsProviderError' ? 'STORE_ACCESS_DENIED' : 'STORE_UNAVAILABLE';
}
