/**
 * What of the key index lies on disk: which runs, for which table at which version, and which path each file ordinal means.
 * Written whole under another name and renamed, after the runs it names are synced: it is always of one piece.
 */
import { randomUUID } from 'node:crypto';
import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { IndexError } from './index-error.ts';
import { KEY_HASH_FORMAT } from './key-hash.ts';

export const INDEX_FORMAT = 1;
const NAME = 'manifest.json';

/** Position of the last TRUNCATE applied; events at or below it are stale. */
export interface TruncatePosition {
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
}

/** The later of two truncates: an older one that comes again lifts nothing. */
export function newestTruncate(a: TruncatePosition | null, b: TruncatePosition | null): TruncatePosition | null {
  if (a === null || b === null) return a ?? b;
  if (a.epoch !== b.epoch) return a.epoch > b.epoch ? a : b;
  if (a.lsn !== b.lsn) return a.lsn > b.lsn ? a : b;
  return a.ord >= b.ord ? a : b;
}

export interface Manifest {
  /** `metaData.id` of the table. */
  readonly tableId: string;
  /** Key columns with their types, `id:long`: another key means another index. */
  readonly keyColumns: readonly string[];
  readonly tableVersion: bigint;
  readonly nextOrdinal: number;
  readonly truncate: TruncatePosition | null;
  /** Ordinal and path of each file that entries may name. */
  readonly files: readonly (readonly [number, string])[];
  /** File names in the index folder, newest first. */
  readonly runs: readonly string[];
}

export async function saveManifest(dir: string, manifest: Manifest): Promise<void> {
  const text = JSON.stringify({
    formatVersion: INDEX_FORMAT,
    keyHashFormat: KEY_HASH_FORMAT,
    ...manifest,
    tableVersion: String(manifest.tableVersion),
    truncate: manifest.truncate === null ? null : { ...manifest.truncate, lsn: String(manifest.truncate.lsn) },
  });
  // A name of its own: a process that was thought dead may still be writing here.
  const temporary = join(dir, `${randomUUID()}.tmp`);
  const file = await open(temporary, 'w');
  try {
    await file.writeFile(text);
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(dir, NAME));
}

/**
 * Null when there is none, or one of an older key hash.
 * @throws IndexError INDEX_CORRUPT, INDEX_FORMAT_NEWER
 */
export async function loadManifest(dir: string): Promise<Manifest | null> {
  const path = join(dir, NAME);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  return parseManifest(path, text);
}

function parseManifest(path: string, text: string): Manifest | null {
  let raw: Record<string, unknown>;
  try {
    raw = JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new IndexError('INDEX_CORRUPT', path, 'the manifest is no JSON', { cause });
  }
  const format = raw['formatVersion'];
  const hashFormat = raw['keyHashFormat'];
  if (typeof format !== 'number' || typeof hashFormat !== 'number')
    throw new IndexError('INDEX_CORRUPT', path, 'the manifest has no format version');
  if (format > INDEX_FORMAT || hashFormat > KEY_HASH_FORMAT)
    throw new IndexError(
      'INDEX_FORMAT_NEWER',
      path,
      `format ${format}.${hashFormat}, this version reads ${INDEX_FORMAT}.${KEY_HASH_FORMAT}`,
    );
  if (hashFormat !== KEY_HASH_FORMAT) return null;
  try {
    // JSON has no type: a part that is missing throws below, and the index is made anew.
    const stored = raw as unknown as Omit<Manifest, 'truncate' | 'tableVersion'> & {
      tableVersion: string;
      truncate: { epoch: number; lsn: string; ord: number } | null;
    };
    if (!Array.isArray(stored.files) || !Array.isArray(stored.runs)) throw new TypeError('lists are missing');
    return {
      tableId: String(stored.tableId),
      keyColumns: stored.keyColumns.map(String),
      tableVersion: BigInt(stored.tableVersion),
      nextOrdinal: Number(stored.nextOrdinal),
      truncate: stored.truncate === null ? null : { ...stored.truncate, lsn: BigInt(stored.truncate.lsn) },
      files: stored.files,
      runs: stored.runs,
    };
  } catch (cause) {
    throw new IndexError('INDEX_CORRUPT', path, 'the manifest lacks a part', { cause });
  }
}
