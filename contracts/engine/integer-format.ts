/** `format` of an integer (`u8`, `i64`) as what it says of a value: a range. */
import { compareDecimals, parseDecimal } from './decimal-text.ts';
import type { Column, ColumnOptions, DecimalText } from './model.ts';
import { parsePgType } from './pg-type.ts';

export interface IntegerRange {
  readonly low: bigint;
  readonly high: bigint;
}

/** Null: no format of an integer. */
export function integerRange(format: string | undefined): IntegerRange | null {
  const [, sign, bits] = /^([iu])(8|16|32|64|128)$/.exec(format ?? '') ?? [];
  if (sign === undefined || bits === undefined) return null;
  const size = 1n << BigInt(bits);
  return sign === 'u' ? { low: 0n, high: size - 1n } : { low: -size / 2n, high: size / 2n - 1n };
}

/** What the database's own type lets in already. */
const STORED: Readonly<Record<string, string>> = { int2: 'i16', int4: 'i32', int8: 'i64', oid: 'u32' };

/**
 * The column's options with the range that its written format adds to its bounds: `u8` on an int4 is 0 to 255.
 * @param physicalType where the type that is stored is known better
 */
export function optionsWithRange(
  { logicalType, options, physicalType: written }: Column,
  physicalType: string | null = written,
): ColumnOptions {
  const range = logicalType === 'integer' ? integerRange(options.format) : null;
  if (range === null) return options;
  const stored = physicalType === null ? null : integerRange(STORED[parsePgType(physicalType).name]);
  const minimum = stored !== null && range.low <= stored.low ? options.minimum : tighter(options.minimum, range.low, 1);
  const maximum =
    stored !== null && range.high >= stored.high ? options.maximum : tighter(options.maximum, range.high, -1);
  return {
    ...options,
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
  };
}

function tighter(bound: DecimalText | undefined, limit: bigint, inward: 1 | -1): DecimalText {
  const written = bound === undefined ? null : parseDecimal(bound);
  const keeps = written !== null && compareDecimals(written, { unscaled: limit, scale: 0 }) * inward >= 0;
  return bound !== undefined && keeps ? bound : String(limit);
}
