/**
 * Key of a record whose table has no key columns: `{"_sluice_row_hash":"<32 hexadecimal digits>"}`, the first half of the
 * SHA-256 over the row's content. Written by the reader, read by the ingest query.
 */
export const ROW_HASH = '_sluice_row_hash';
/** Place of a row among those that equal it, from 0 without gaps: the second half of the key in the lake. */
export const OCCURRENCE = '_sluice_occurrence';

const HEAD = `{"${ROW_HASH}":"`;
const DIGITS = 32;
const LENGTH = HEAD.length + DIGITS + 2;

export function bagKeyOf(hexDigest: string): Buffer {
  return Buffer.from(`${HEAD}${hexDigest.slice(0, DIGITS)}"}`, 'latin1');
}

/** Null where the key is none of ours. */
export function rowHashOf(key: Buffer | null): string | null {
  if (key === null || key.length !== LENGTH) return null;
  const text = key.toString('latin1');
  return text.startsWith(HEAD) && text.endsWith('"}') ? text.slice(HEAD.length, -2) : null;
}
