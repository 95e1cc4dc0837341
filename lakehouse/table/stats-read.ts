/** Statistics read back from an add action: loosely (a broken text is no statistics), exactly (no digit lost). */
import { parseLossless, stringifyLossless } from './lossless-json.ts';

export interface FileStats {
  /** Physical rows of the file, those under a deletion vector included; null when not said. */
  readonly rowCount: bigint | null;
  readonly minValues: Readonly<Record<string, unknown>>;
  readonly maxValues: Readonly<Record<string, unknown>>;
  readonly nullCount: Readonly<Record<string, unknown>>;
  readonly tightBounds: boolean;
}

const record = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** Null when there are none or they do not parse. */
export function parseStats(stats: string | null): FileStats | null {
  if (stats === null || stats === '') return null;
  let raw: unknown;
  try {
    raw = parseLossless(stats);
  } catch {
    return null;
  }
  const { numRecords, minValues, maxValues, nullCount, tightBounds } = record(raw);
  const counted =
    typeof numRecords === 'bigint' || (typeof numRecords === 'number' && Number.isSafeInteger(numRecords));
  return {
    rowCount: counted ? BigInt(numRecords) : null,
    minValues: record(minValues),
    maxValues: record(maxValues),
    nullCount: record(nullCount),
    tightBounds: tightBounds !== false,
  };
}

/**
 * The same statistics for a file that now has a deletion vector: its bounds still hold but are no longer tight.
 * @param rowCount physical rows, which a vector requires in the statistics; used when they lack it
 */
export function looseStats(stats: string | null, rowCount: bigint): string {
  let raw: Readonly<Record<string, unknown>> = {};
  try {
    raw = record(parseLossless(stats ?? '{}'));
  } catch {
    // A text that does not parse says nothing worth keeping.
  }
  return stringifyLossless({ ...raw, numRecords: raw['numRecords'] ?? rowCount, tightBounds: false });
}
