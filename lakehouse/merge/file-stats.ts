/** What the merge reads out of a file's statistics. */
import type { AddFile } from '../table/actions.ts';
import { looseStats, parseStats } from '../table/stats-read.ts';

/** Physical rows, or null where the statistics do not say. */
export function recordCount(file: AddFile): number | null {
  // Nearly always the first member: the whole text need not be parsed for every file of every batch.
  const [, digits] = /^\{"numRecords":(\d+)[,}]/.exec(file.stats ?? '') ?? [];
  if (digits !== undefined) return Number(digits);
  const count = parseStats(file.stats)?.rowCount ?? null;
  return count === null ? null : Number(count);
}

/** Statistics of a file that has a deletion vector. */
export function vectorStats(file: AddFile, physicalRows: number): string {
  if (file.stats?.endsWith('"tightBounds":false}') === true) return file.stats;
  return looseStats(file.stats, BigInt(physicalRows));
}

/** Bounds of a whole-number column without NULLs, or null where they are not known. */
export function columnBounds(
  file: AddFile,
  physicalName: string,
): { readonly min: bigint; readonly max: bigint } | null {
  const stats = parseStats(file.stats);
  const min = whole(stats?.minValues[physicalName]);
  const max = whole(stats?.maxValues[physicalName]);
  const nulls = whole(stats?.nullCount[physicalName]);
  return min === null || max === null || nulls !== 0n ? null : { min, max };
}

function whole(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : null;
}
