/**
 * PORT ObjectStore: everything the lakehouse knows about storage. Keys are slash-separated, relative to the store's
 * root, never percent-encoded (the Delta log's URI decoding happens above this port). Adapters: `memory-store.ts`,
 * `file-store.ts`, `s3-store.ts`; one conformance suite runs on all of them (test/conformance/register-store-suite.ts).
 */
export interface ObjectMeta {
  /** Key relative to the store's root. */
  readonly key: string;
  readonly sizeBytes: number;
  /** Last modification, milliseconds since the epoch. */
  readonly modifiedMs: number;
}

export interface ByteRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/**
 * Outcome of a conditional create. `created`: this very call stored the object. `exists`: an object stood there already
 * (it may still be our own, after a lost answer: the caller compares its writer token).
 */
export type PutIfAbsentResult = 'created' | 'exists';

export interface ObjectStore {
  /** Canonical URI of the root (`file:///…`, `s3://bucket/prefix`, `memory://…`), no trailing slash, no credentials. */
  readonly uri: string;
  /** @throws StoreError NOT_FOUND | ACCESS_DENIED | UNAVAILABLE | … */
  get(key: string, range?: ByteRange): Promise<Uint8Array>;
  /** Null when absent. */
  head(key: string): Promise<ObjectMeta | null>;
  /** All objects below `prefix` (recursive), in ascending key order, starting after `startAfter` when given. */
  list(prefix: string, options?: { readonly startAfter?: string }): AsyncIterable<ObjectMeta>;
  /** Unconditional write; atomic: a reader sees the old object, the new one, or none, never a part. */
  put(key: string, body: Uint8Array): Promise<void>;
  /**
   * Create only if absent, atomically, durable on return. Never retried inside the adapter.
   * @throws StoreError OUTCOME_UNKNOWN when the answer was lost (time-out, reset, 5xx): the object may stand there or not.
   */
  putIfAbsent(key: string, body: Uint8Array): Promise<PutIfAbsentResult>;
  /** Absent keys are no error. */
  delete(keys: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export type StoreErrorCode =
  | 'STORE_NOT_FOUND'
  | 'STORE_CONTAINER_MISSING'
  | 'STORE_ACCESS_DENIED'
  | 'STORE_UNAVAILABLE'
  | 'STORE_THROTTLED'
  | 'STORE_OUTCOME_UNKNOWN'
  | 'STORE_CONDITION_IGNORED'
  | 'STORE_DISK_FULL'
  | 'STORE_TRUNCATED'
  | 'STORE_BAD_URI';

/** A failed store call: what failed (`code`), where (`key`, without the bucket's secrets), and the driver's error as `cause`. */
export class StoreError extends Error {
  readonly code: StoreErrorCode;
  readonly key: string;
  constructor(code: StoreErrorCode, key: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StoreError';
    this.code = code;
    this.key = key;
  }
}

/** Whether waiting and calling again may cure it. */
export function isRetriable(error: unknown): boolean {
  return error instanceof StoreError && (error.code === 'STORE_UNAVAILABLE' || error.code === 'STORE_THROTTLED');
}
