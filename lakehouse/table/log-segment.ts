/** Which files of the log make up a version: list once, choose a checkpoint, check that the commits after it are whole. */
import { DEFAULT_BACKOFF, isRetriableRead, withRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import type { ObjectMeta, ObjectStore } from '../store/store.ts';
import { LOG_FOLDER, commitKey, parseLogFile, versionName } from './log-files.ts';
import { TableError } from './table-error.ts';

/** A complete checkpoint: all its parts are there. */
export interface CheckpointFiles {
  readonly version: bigint;
  readonly layout: 'single' | 'multi-part' | 'v2';
  readonly format: 'parquet' | 'json';
  /** In part order. */
  readonly files: readonly ObjectMeta[];
}

export interface CompactedFile {
  readonly fromVersion: bigint;
  readonly toVersion: bigint;
  readonly file: ObjectMeta;
}

export interface LogListing {
  /** False when the listing began at a checkpoint pointer, so that older files are not in it. */
  readonly fromStart: boolean;
  /** Ascending by version. */
  readonly commits: ReadonlyMap<bigint, ObjectMeta>;
  /** Descending by version; single files before V2 before multi-part ones. */
  readonly checkpoints: readonly CheckpointFiles[];
  readonly compacted: readonly CompactedFile[];
  /** Versions that have a checksum file. */
  readonly checksums: ReadonlySet<bigint>;
  /** Newest version that a commit or checkpoint names; null when there is none. */
  readonly newest: bigint | null;
}

/** Lists the log, from `fromVersion` on when given (only if an object store can start there: all of ours can). */
export async function listLog(
  store: ObjectStore,
  fromVersion: bigint | null,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<LogListing> {
  return withRetry(() => listOnce(store, fromVersion), isRetriableRead, backoff);
}

async function listOnce(store: ObjectStore, fromVersion: bigint | null): Promise<LogListing> {
  const commits = new Map<bigint, ObjectMeta>();
  const parts = new Map<string, ObjectMeta[]>();
  const checkpoints: CheckpointFiles[] = [];
  const compacted: CompactedFile[] = [];
  const checksums = new Set<bigint>();
  let newest: bigint | null = null;
  // "…10" sorts before "…10.checkpoint.parquet" and "…10.json": the version itself is in the listing.
  const options = fromVersion === null ? {} : { startAfter: `${LOG_FOLDER}${versionName(fromVersion)}` };
  for await (const meta of store.list(LOG_FOLDER, options)) {
    // Version names begin with a digit; everything that sorts after them (`_sidecars/`, `_last_checkpoint`) is no part of it.
    if (meta.key.charCodeAt(LOG_FOLDER.length) > 0x39) break;
    const file = parseLogFile(meta.key);
    if (file === null) continue;
    if (file.kind === 'checksum') {
      checksums.add(file.version);
      continue;
    }
    if (file.kind === 'compacted') {
      if (file.version < file.toVersion) {
        compacted.push({ fromVersion: file.version, toVersion: file.toVersion, file: meta });
      }
      continue;
    }
    if (file.kind === 'commit') {
      commits.set(file.version, meta);
    } else if (file.form.layout === 'multi-part') {
      const set = `${file.version}/${file.form.parts}`;
      const found = parts.get(set) ?? [];
      found[file.form.part - 1] = meta;
      parts.set(set, found);
      if (!isWhole(found, file.form.parts)) continue;
      checkpoints.push({ version: file.version, layout: 'multi-part', format: 'parquet', files: found });
    } else {
      const format = file.form.layout === 'v2' ? file.form.format : 'parquet';
      checkpoints.push({ version: file.version, layout: file.form.layout, format, files: [meta] });
    }
    if (newest === null || file.version > newest) newest = file.version;
  }
  checkpoints.sort(newestFirst);
  return { fromStart: fromVersion === null, commits, checkpoints, compacted, checksums, newest };
}

const LAYOUT_ORDER = { single: 0, v2: 1, 'multi-part': 2 } as const;

function newestFirst(a: CheckpointFiles, b: CheckpointFiles): number {
  if (a.version !== b.version) return a.version > b.version ? -1 : 1;
  return LAYOUT_ORDER[a.layout] - LAYOUT_ORDER[b.layout];
}

function isWhole(found: readonly (ObjectMeta | undefined)[], parts: number): boolean {
  if (found.length !== parts) return false;
  for (let part = 0; part < parts; part++) if (found[part] === undefined) return false;
  return true;
}

/** One step of a replay: a commit, or a compacted file that stands for several. */
export interface LogStep {
  readonly fromVersion: bigint;
  readonly toVersion: bigint;
  readonly file: ObjectMeta;
}

/**
 * What to read, in order, to come from `base` (null: from nothing) to `target`. A compacted file that lies wholly inside
 * stands for its commits.
 * @throws TableError LOG_HOLE naming the first missing commit
 */
export function planSteps(listing: LogListing, base: bigint | null, target: bigint, table: string): readonly LogStep[] {
  const steps: LogStep[] = [];
  const longest = new Map<bigint, CompactedFile>();
  for (const file of listing.compacted) {
    const known = longest.get(file.fromVersion);
    if (file.toVersion <= target && (known === undefined || known.toVersion < file.toVersion)) {
      longest.set(file.fromVersion, file);
    }
  }
  for (let version = base === null ? 0n : base + 1n; version <= target;) {
    const compacted = longest.get(version);
    if (compacted !== undefined) {
      steps.push(compacted);
      version = compacted.toVersion + 1n;
      continue;
    }
    const file = listing.commits.get(version);
    if (file === undefined) {
      throw new TableError(
        'LOG_HOLE',
        { table, version, file: commitKey(version) },
        `commit ${version} is missing although version ${target} exists; restore the file from a backup, or restore the table from before it`,
      );
    }
    if (file.sizeBytes === 0) throw emptyCommit(table, version);
    steps.push({ fromVersion: version, toVersion: version, file });
    version++;
  }
  return steps;
}

export function emptyCommit(table: string, version: bigint): TableError {
  return new TableError(
    'LOG_COMMIT_CORRUPT',
    { table, version, file: commitKey(version) },
    `the commit file has no content: its writer did not finish, or the disk lost it; restore the file from a backup`,
  );
}
