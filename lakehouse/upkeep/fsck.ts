/**
 * Checks a table against its log: does everything that the log names stand there, as the log describes it? Reads only.
 *
 *   always:  log without holes; checkpoints readable; each live file there, of the size the log says; each vector readable (size, CRC-32,
 *            cardinality) and smaller than its file; numRecords there where a vector needs it; fences that commits name
 *   deep:    each file's rows read: row count against the statistics, no value outside of its bounds
 *
 * A damaged file is a finding, not an error: the check goes on and names everything that is wrong.
 */
import { bytesSource, storeSource } from '../parquet/byte-source.ts';
import { decodeRowGroups } from '../parquet/decode.ts';
import { openParquet } from '../parquet/footer.ts';
import { DEFAULT_BACKOFF, isRetriableRead, withRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectMeta, ObjectStore } from '../store/store.ts';
import type { AddFile } from '../table/actions.ts';
import { mappingMode } from '../table/column-mapping.ts';
import { deletionVectorKey, readDeletionVector } from '../table/deletion-vector.ts';
import { keyOfPath } from '../table/file-path.ts';
import { readHistory } from '../table/history.ts';
import { commitKey } from '../table/log-files.ts';
import { openSnapshot, refreshSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { collectStats } from '../table/stats.ts';
import { parseStats } from '../table/stats-read.ts';
import { TableError } from '../table/table-error.ts';
import { checksumFaults, checksumKey, readChecksum } from '../table/version-checksum.ts';
import { outOfBounds } from './check-bounds.ts';
import { damagedCheckpoints } from './check-checkpoints.ts';
import { keysOf, referencedKeys } from './referenced-files.ts';
import { kindOf } from './vacuum.ts';

export type FindingKind =
  | 'log-unreadable'
  /** Readers do without it, by an older one or by the commits. */
  | 'checkpoint-unreadable'
  /** A version's checksum file does not agree with the log, or cannot be read. */
  | 'checksum-wrong'
  | 'file-missing'
  | 'file-size'
  | 'file-unreadable'
  | 'row-count'
  | 'stats-missing'
  | 'stats-wrong'
  | 'vector-missing'
  | 'vector-wrong'
  | 'fence-missing'
  /** More than one live entry for one path: its rows are doubled. */
  | 'path-twice';

export interface Finding {
  readonly kind: FindingKind;
  /** Key below the table root, or path as in the log. */
  readonly file: string;
  /** What is wrong and what to do; no row data. */
  readonly message: string;
}

export interface FsckReport {
  readonly version: bigint;
  readonly filesChecked: number;
  readonly findings: readonly Finding[];
  /** Files that the log does not name (lost races, crashes, old versions): no fault, VACUUM takes them in time. */
  readonly orphans: { readonly count: number; readonly bytes: number };
}

export interface FsckOptions {
  /** Read every file's rows too. */
  readonly deep?: boolean;
  readonly backoff?: Backoff;
  readonly signal?: AbortSignal;
}

const FENCES = '_sluice/fences/';
const COMPACTED_FENCE = /(\d{20})-(\d{20})\.compacted\.parquet$/;

/** @throws TableError TABLE_NOT_FOUND | PROTOCOL_UNSUPPORTED | … when the table cannot be opened at all; StoreError */
export async function fsck(store: ObjectStore, options: FsckOptions = {}): Promise<FsckReport> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  const snapshot = await openSnapshot(store, { tombstones: true, backoff });
  const listed = await withRetry(() => listAll(store), isRetriableRead, backoff);
  const findings: Finding[] = [];
  const say = (kind: FindingKind, file: string, message: string): void => {
    findings.push({ kind, file, message });
  };
  /** Of single files: damage as long as the table names them. */
  const ofFiles: Finding[] = [];
  const sayOfFile: Say = (kind, file, message) => void ofFiles.push({ kind, file, message });
  let filesChecked = 0;
  const paths = new Set<string>();
  for (const file of snapshot.files) {
    options.signal?.throwIfAborted();
    filesChecked++;
    const key = keyOfPath(file.path, store.uri) ?? file.path;
    if (paths.has(key))
      say('path-twice', key, 'two live entries name this file, so its rows count twice; restore an older version');
    paths.add(key);
    const standing = await checkStanding(store, file, listed, sayOfFile);
    await checkVector(store, file, sayOfFile);
    if (standing && options.deep === true) await checkRows(snapshot, file, sayOfFile);
  }
  findings.push(...(await stillNamed(snapshot, ofFiles, backoff)));
  await checkChecksum(snapshot, listed, backoff, say);
  for (const { file, message } of await damagedCheckpoints(store, options.deep === true ? 'all' : 'newest', backoff))
    say(
      'checkpoint-unreadable',
      file,
      `${message}; write a new one (sluice table checkpoint), and keep the commits before it until then`,
    );
  await checkHistory(store, listed, backoff, say);
  return { version: snapshot.version, filesChecked, findings, orphans: orphansOf(snapshot, listed) };
}

/** Without those of files that the table has let go meanwhile: what rewrote them may be long done, and VACUUM behind it. */
async function stillNamed(
  snapshot: Snapshot,
  findings: readonly Finding[],
  backoff: Backoff,
): Promise<readonly Finding[]> {
  if (findings.length === 0) return findings;
  const now = await refreshSnapshot(snapshot, { backoff });
  if (now.version === snapshot.version) return findings;
  const named = new Set<string>();
  for (const file of now.files) for (const key of [file.path, ...keysOf(file, now.store.uri)]) named.add(key);
  return findings.filter(({ file }) => named.has(file));
}

async function checkChecksum(
  snapshot: Snapshot,
  listed: ReadonlyMap<string, ObjectMeta>,
  backoff: Backoff,
  say: Say,
): Promise<void> {
  const key = checksumKey(snapshot.version);
  if (!listed.has(key)) return;
  const checksum = await readChecksum(snapshot.store, snapshot.version, backoff);
  const faults = checksum.kind === 'read' ? checksumFaults(checksum.members, snapshot) : ['it cannot be read'];
  if (faults.length === 0) return;
  say(
    'checksum-wrong',
    key,
    `${faults.join('; ')}; if nothing else is wrong, delete the file, otherwise restore the log from a backup`,
  );
}

type Say = (kind: FindingKind, file: string, message: string) => void;

async function listAll(store: ObjectStore, prefix = ''): Promise<ReadonlyMap<string, ObjectMeta>> {
  const listed = new Map<string, ObjectMeta>();
  for await (const meta of store.list(prefix)) listed.set(meta.key, meta);
  return listed;
}

const FILE_MISSING = 'the log names this file and it is gone; restore it from a backup, or restore an older version';

/** Whether the file is there, whole by its size. A file added after the listing is looked at by itself. */
async function checkStanding(
  store: ObjectStore,
  file: AddFile,
  listed: ReadonlyMap<string, ObjectMeta>,
  say: Say,
): Promise<boolean> {
  const key = keyOfPath(file.path, store.uri);
  // A shallow clone's file lies with another table.
  if (key === null) return false;
  const meta = listed.get(key) ?? (await headInside(store, key));
  if (meta === null) {
    say('file-missing', key, FILE_MISSING);
    return false;
  }
  if (BigInt(meta.sizeBytes) !== file.size) {
    say(
      'file-size',
      key,
      `the log says ${file.size} bytes, the store ${meta.sizeBytes}; restore the file from a backup`,
    );
    return false;
  }
  return true;
}

/** Null, too, of a path that leads out of the table: nothing of ours is there. */
async function headInside(store: ObjectStore, key: string): Promise<ObjectMeta | null> {
  try {
    return await store.head(key);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_BAD_URI') return null;
    throw error;
  }
}

async function checkVector(store: ObjectStore, file: AddFile, say: Say): Promise<void> {
  const vector = file.deletionVector;
  if (vector === null) return;
  const key = deletionVectorKey(vector, store.uri) ?? file.path;
  const stats = parseStats(file.stats);
  if (stats === null || stats.rowCount === null) {
    say(
      'stats-missing',
      file.path,
      'a file with a deletion vector must say numRecords; rewrite it (sluice table optimize)',
    );
  } else if (vector.cardinality > stats.rowCount) {
    say('vector-wrong', key, `the vector marks ${vector.cardinality} rows of ${stats.rowCount}`);
  }
  if (vector.storageType === 'p' && deletionVectorKey(vector, store.uri) === null) return;
  try {
    const rows = await readDeletionVector(store, vector);
    const last = rows.at(-1);
    if (last !== undefined && stats?.rowCount != null && BigInt(last) >= stats.rowCount) {
      say('vector-wrong', key, `the vector marks row ${last} of a file of ${stats.rowCount} rows`);
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code === 'DATA_FILE_MISSING')
      say('vector-missing', key, 'the deletion vector is gone; restore it from a backup');
    else if (code === 'DATA_FILE_CORRUPT') say('vector-wrong', key, messageOf(error));
    else throw error;
  }
}

async function checkRows(snapshot: Snapshot, file: AddFile, say: Say): Promise<void> {
  const { store } = snapshot;
  const key = keyOfPath(file.path, store.uri) ?? '';
  const mode = mappingMode(snapshot.metadata);
  const partitions = new Set(snapshot.metadata.partitionColumns);
  const stored = { ...snapshot.schema, fields: snapshot.schema.fields.filter(({ name }) => !partitions.has(name)) };
  const stats = parseStats(file.stats);
  try {
    const bytes = storeSource(store, key, Number(file.size));
    const parquet = await openParquet(
      file.size < 1_000_000n ? bytesSource(key, await bytes.read(0, bytes.sizeBytes)) : bytes,
    );
    if (stats?.rowCount != null && BigInt(parquet.rowCount) !== stats.rowCount) {
      say(
        'row-count',
        key,
        `the log says ${stats.rowCount} rows, the file has ${parquet.rowCount}; rewrite it (sluice table optimize)`,
      );
    }
    for await (const { batch } of decodeRowGroups(parquet, stored, { columnMapping: mode })) {
      if (stats === null) continue;
      const asked = { indexedColumns: -1, columnMapping: mode !== 'none', wholeTexts: true };
      const found = parseStats(collectStats(stored, batch, asked));
      const wrong = found === null ? [] : outOfBounds(stats, found);
      for (const column of wrong)
        say(
          'stats-wrong',
          key,
          `column ${column} has values outside of its statistics: engines may skip rows; rewrite the file (sluice table optimize)`,
        );
      if (wrong.length > 0) break;
    }
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') {
      say('file-missing', key, FILE_MISSING);
      return;
    }
    if (!(error instanceof Error && error.name === 'ParquetError')) throw error;
    say('file-unreadable', key, `${messageOf(error)}; restore the file from a backup`);
  }
}

/** The commits before the checkpoint too: time travel and the change feed need them. */
async function checkHistory(
  store: ObjectStore,
  listed: ReadonlyMap<string, ObjectMeta>,
  backoff: Backoff,
  say: Say,
): Promise<void> {
  try {
    await checkFences(store, listed, backoff, say);
  } catch (error) {
    if (!(error instanceof TableError) || error.code !== 'LOG_COMMIT_CORRUPT') throw error;
    say('log-unreadable', error.place.file ?? '', error.message);
  }
}

/** Fence files that commits name, unless a compacted one covers their version. */
async function checkFences(
  store: ObjectStore,
  listed: ReadonlyMap<string, ObjectMeta>,
  backoff: Backoff,
  say: Say,
): Promise<void> {
  let coveredTo = fencesCoveredTo(listed.keys());
  let last: bigint | null = null;
  for await (const { version, commit } of readHistory(store, { backoff })) {
    // A listing that is taken while commits come may have the newer of two alone.
    if (last !== null && version !== last - 1n && (await store.head(commitKey(last - 1n))) === null) {
      say(
        'log-unreadable',
        commitKey(last - 1n),
        `commits between ${version} and ${last} are missing; versions before ${last} cannot be followed`,
      );
    }
    last = version;
    const named = version <= coveredTo ? [] : commit.commitInfo?.['sluiceFences'];
    for (const key of Array.isArray(named) ? named : []) {
      if (typeof key === 'string' && !listed.has(key) && (await store.head(key)) === null) {
        // Joined with others since the files were listed, perhaps.
        coveredTo = fencesCoveredTo((await listAll(store, FENCES)).keys());
        if (version <= coveredTo) break;
        say(
          'fence-missing',
          key,
          `commit ${version} names this fence file and it is gone; an old event may bring a deleted row back`,
        );
      }
    }
  }
}

/** Newest version whose fences a compacted file has. */
function fencesCoveredTo(keys: Iterable<string>): bigint {
  let coveredTo = -1n;
  for (const key of keys) {
    const to = key.startsWith(FENCES) ? COMPACTED_FENCE.exec(key)?.[2] : undefined;
    if (to !== undefined && BigInt(to) > coveredTo) coveredTo = BigInt(to);
  }
  return coveredTo;
}

function orphansOf(snapshot: Snapshot, listed: ReadonlyMap<string, ObjectMeta>): FsckReport['orphans'] {
  const needed = new Set(referencedKeys(snapshot, 0));
  for (const file of snapshot.files) for (const key of keysOf(file, snapshot.store.uri)) needed.add(key);
  const partitions = new Set(snapshot.metadata.partitionColumns);
  let count = 0;
  let bytes = 0;
  for (const { key, sizeBytes } of listed.values()) {
    if (needed.has(key) || key.startsWith('_change_data/') || kindOf(key, partitions) !== 'data') continue;
    count++;
    bytes += sizeBytes;
  }
  return { count, bytes };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unreadable';
}
