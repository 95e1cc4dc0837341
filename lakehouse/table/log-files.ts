/** Names in `_delta_log/` (PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Log Compaction Files"). */
export const LOG_FOLDER = '_delta_log/';
export const LAST_CHECKPOINT = `${LOG_FOLDER}_last_checkpoint`;
export const SIDECAR_FOLDER = `${LOG_FOLDER}_sidecars/`;

export type LogFile =
  | { readonly kind: 'commit'; readonly version: bigint }
  | { readonly kind: 'checkpoint'; readonly version: bigint; readonly form: CheckpointForm }
  | { readonly kind: 'compacted'; readonly version: bigint; readonly toVersion: bigint }
  | { readonly kind: 'checksum'; readonly version: bigint };

export type CheckpointForm =
  | { readonly layout: 'single' }
  /** Part `part` (1-based) of `parts`. */
  | { readonly layout: 'multi-part'; readonly part: number; readonly parts: number }
  | { readonly layout: 'v2'; readonly uuid: string; readonly format: 'parquet' | 'json' };

const UUID = '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
const COMMIT = /^(\d{20})\.json$/;
const CHECKSUM = /^(\d{20})\.crc$/;
const COMPACTED = /^(\d{20})\.(\d{20})\.compacted\.json$/;
const SINGLE = /^(\d{20})\.checkpoint\.parquet$/;
const MULTI = /^(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet$/;
const V2 = new RegExp(`^(\\d{20})\\.checkpoint\\.(${UUID})\\.(parquet|json)$`);

/** Null for a file that is not part of the log's language (temporary files, other engines' notes). */
export function parseLogFile(key: string): LogFile | null {
  if (!key.startsWith(LOG_FOLDER)) return null;
  const name = key.slice(LOG_FOLDER.length);
  let found = COMMIT.exec(name);
  if (found !== null) return { kind: 'commit', version: BigInt(found[1] ?? '') };
  found = SINGLE.exec(name);
  if (found !== null) return { kind: 'checkpoint', version: BigInt(found[1] ?? ''), form: { layout: 'single' } };
  found = MULTI.exec(name);
  if (found !== null) {
    const form = { layout: 'multi-part', part: Number(found[2]), parts: Number(found[3]) } as const;
    return { kind: 'checkpoint', version: BigInt(found[1] ?? ''), form };
  }
  found = V2.exec(name);
  if (found !== null) {
    const form = { layout: 'v2', uuid: found[2] ?? '', format: found[3] === 'json' ? 'json' : 'parquet' } as const;
    return { kind: 'checkpoint', version: BigInt(found[1] ?? ''), form };
  }
  found = COMPACTED.exec(name);
  if (found !== null) {
    return { kind: 'compacted', version: BigInt(found[1] ?? ''), toVersion: BigInt(found[2] ?? '') };
  }
  found = CHECKSUM.exec(name);
  return found === null ? null : { kind: 'checksum', version: BigInt(found[1] ?? '') };
}

export function versionName(version: bigint): string {
  return version.toString().padStart(20, '0');
}

export function commitKey(version: bigint): string {
  return `${LOG_FOLDER}${versionName(version)}.json`;
}

export function checkpointKey(version: bigint): string {
  return `${LOG_FOLDER}${versionName(version)}.checkpoint.parquet`;
}
