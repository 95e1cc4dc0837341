/**
 * Version checksums (PROTOCOL.md, "Version Checksum File"): `_delta_log/<version>.crc` says what the state of a version adds
 * up to. Where the two disagree, either the log lost something or the checksum's writer was wrong, and from here nobody can
 * say which. Such a version is read from its log, as all engines read it, with a warning; nothing is committed, deleted or
 * checkpointed on top of it (docs/decisions/0023). A checksum file that cannot be read at all is none (its writer may have
 * died); fsck names it.
 *
 * Ours are written beside checkpoints, from a state that was read whole, and are exact or not written.
 */
import { getWithRetry, type Backoff } from '../store/retry.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import { object } from './action-json.ts';
import { parseLossless, stringifyLossless } from './lossless-json.ts';
import { LOG_FOLDER, versionName } from './log-files.ts';
import type { LogState } from './replay.ts';
import { parseSchema } from './schema-json.ts';
import { TableError } from './table-error.ts';

type ChecksumState = Pick<LogState, 'protocol' | 'metadata' | 'files' | 'txns'>;

export function checksumKey(version: bigint): string {
  return `${LOG_FOLDER}${versionName(version)}.crc`;
}

export type ReadChecksum =
  | { readonly kind: 'read'; readonly members: Readonly<Record<string, unknown>> }
  | { readonly kind: 'unreadable' };

export async function readChecksum(store: ObjectStore, version: bigint, backoff?: Backoff): Promise<ReadChecksum> {
  try {
    const body = await getWithRetry(store, checksumKey(version), undefined, backoff);
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    return { kind: 'read', members: object(parseLossless(text), 'the checksum') };
  } catch (error) {
    if (error instanceof StoreError && error.code !== 'STORE_NOT_FOUND' && error.code !== 'STORE_TRUNCATED')
      throw error;
    return { kind: 'unreadable' };
  }
}

/** What of the state does not add up to the checksum, in words; empty when all does. */
export function checksumFaults(members: Readonly<Record<string, unknown>>, state: ChecksumState): readonly string[] {
  const faults: string[] = [];
  const compare = (name: string, found: bigint): void => {
    const said = whole(members[name]);
    if (said !== null && said !== found) faults.push(`${name} is ${said} in it and ${found} in the log`);
  };
  compare('numFiles', BigInt(state.files.count));
  compare('tableSizeBytes', state.files.sizeBytes);
  if (whole(members['numDeletionVectorsOpt']) !== null || whole(members['numDeletedRecordsOpt']) !== null) {
    const { vectors, records } = deletions(state);
    compare('numDeletionVectorsOpt', vectors);
    compare('numDeletedRecordsOpt', records);
  }
  const id = member(members['metadata'], 'id');
  if (typeof id === 'string' && id !== state.metadata?.id) faults.push('its metadata is of another table');
  const schema = member(members['metadata'], 'schemaString');
  if (typeof schema === 'string' && !isSameSchema(schema, state.metadata?.schemaString ?? ''))
    faults.push('its columns are others than those of the log');
  for (const name of ['minReaderVersion', 'minWriterVersion'] as const) {
    const said = whole(member(members['protocol'], name));
    if (said !== null && said !== BigInt(state.protocol?.[name] ?? -1))
      faults.push(`protocol.${name} is ${said} in it and ${state.protocol?.[name] ?? 'absent'} in the log`);
  }
  // Some writers leave transactions out; those that they name must be the log's.
  const transactions = members['setTransactions'];
  for (const transaction of Array.isArray(transactions) ? transactions : []) {
    const appId = member(transaction, 'appId');
    const said = whole(member(transaction, 'version'));
    const found = typeof appId === 'string' ? state.txns.get(appId)?.version : undefined;
    if (said !== null && found !== undefined && found !== said)
      faults.push(`transaction ${String(appId)} is at ${said} in it and at ${found} in the log`);
  }
  return faults;
}

export interface ChecksumFault {
  readonly version: bigint;
  /** Names the file, and says what to do. */
  readonly message: string;
}

/** Null when the version's checksum agrees with its log, or cannot be read. */
export async function checksumFault(
  store: ObjectStore,
  version: bigint,
  state: ChecksumState,
  backoff?: Backoff,
): Promise<ChecksumFault | null> {
  const checksum = await readChecksum(store, version, backoff);
  const faults = checksum.kind === 'read' ? checksumFaults(checksum.members, state) : [];
  if (faults.length === 0) return null;
  const what = `the checksum of this version does not agree with the log: ${faults.join('; ')}`;
  const remedy =
    'If the log is whole (`sluice table fsck`), delete the checksum file; otherwise restore the log from a backup';
  return { version, message: `${what}. ${remedy}` };
}

/**
 * Before anything is built upon a state: a commit, a checkpoint, a deletion of files.
 * @throws TableError CHECKSUM_MISMATCH naming table, version and file
 */
export function assertChecksum({
  store,
  checksumFault: fault,
}: {
  readonly store: ObjectStore;
  readonly checksumFault: ChecksumFault | null;
}): void {
  if (fault !== null) throw checksumMismatch(store.uri, fault);
}

export function checksumMismatch(table: string, { version, message }: ChecksumFault): TableError {
  return new TableError('CHECKSUM_MISMATCH', { table, version, file: checksumKey(version) }, message);
}

/** Best effort and never over one that stands: another writer's may be there. */
export async function writeChecksum(
  store: ObjectStore,
  version: bigint,
  state: ChecksumState & Pick<LogState, 'domains' | 'inCommitTimestampMs'>,
): Promise<boolean> {
  const { vectors, records } = deletions(state);
  const body = stringifyLossless({
    tableSizeBytes: state.files.sizeBytes,
    numFiles: state.files.count,
    numDeletedRecordsOpt: records,
    numDeletionVectorsOpt: vectors,
    numMetadata: 1,
    numProtocol: 1,
    ...(state.inCommitTimestampMs === null ? {} : { inCommitTimestampOpt: state.inCommitTimestampMs }),
    setTransactions: [...state.txns.values()].map(({ appId, version: at, lastUpdated }) => ({
      appId,
      version: at,
      ...(lastUpdated === null ? {} : { lastUpdated }),
    })),
    domainMetadata: [...state.domains.values()],
    metadata: withoutNulls(state.metadata),
    protocol: withoutNulls(state.protocol),
  });
  try {
    return (await store.putIfAbsent(checksumKey(version), new TextEncoder().encode(body))) === 'created';
  } catch (error) {
    if (error instanceof StoreError) return false;
    throw error;
  }
}

function deletions(state: ChecksumState): { readonly vectors: bigint; readonly records: bigint } {
  let vectors = 0n;
  let records = 0n;
  for (const { deletionVector } of state.files) {
    if (deletionVector === null) continue;
    vectors++;
    records += deletionVector.cardinality;
  }
  return { vectors, records };
}

/** By names and types alone; a text that cannot be read says nothing. */
function isSameSchema(said: string, found: string): boolean {
  try {
    return said === found || namesAndTypes(said) === namesAndTypes(found);
  } catch {
    return true;
  }
}

const NAMES_AND_TYPES = ['fields', 'name', 'type', 'elementType', 'keyType', 'valueType'];
const namesAndTypes = (schema: string): string => JSON.stringify(parseSchema(schema), NAMES_AND_TYPES);

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}

function whole(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : null;
}

function withoutNulls(action: object | null): object | null {
  if (action === null) return null;
  return Object.fromEntries(Object.entries(action).filter(([, value]) => value !== null));
}
