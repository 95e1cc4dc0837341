/**
 * What stands in the log for a personal value: pure functions from a cell's PostgreSQL text to JSON. A hash is taken of the
 * same text that the stream would hash (contracts/engine/privacy.ts), so that a value has one pseudonym wherever it is made.
 */
import { canonicalText, MASK, PrivacyError, type Hasher } from '../../contracts/engine/privacy.ts';
import { createByteSink } from './byte-sink.ts';
import { readCell } from './cell-decode.ts';
import { writeCell } from './cell-encode.ts';
import type { ColumnShape } from './event.ts';
import { createJsonCursor, openCursor } from './json-cursor.ts';
import { sourceFormOf, WireKind } from './wire-kind.ts';

/** JSON for the cell bytes[start .. end), which is not NULL. */
export type CellReplacer = (bytes: Buffer, start: number, end: number) => Buffer;

const MASKED = Buffer.from(JSON.stringify(MASK));
const NULL = Buffer.from('null');

/** Null for a column that goes as it is, or that is in no record. @throws PrivacyError PII_KEY_MISSING */
export function cellReplacer(column: ColumnShape, hasher: Hasher | null): CellReplacer | null {
  const { replaced } = column;
  if (replaced === undefined || replaced === 'drop') return null;
  if (replaced === 'mask') return () => MASKED;
  if (replaced === 'null') return () => NULL;
  if (hasher === null)
    throw new PrivacyError('PII_KEY_MISSING', `column ${column.name} must be hashed, but no key is configured`);
  const textOf = clearText(column);
  return (bytes, start, end) => Buffer.from(`"${hasher(textOf(bytes, start, end))}"`);
}

/** PostgreSQL's text of a value to the text that is hashed. */
export function clearText(column: ColumnShape): (bytes: Buffer, start: number, end: number) => string {
  const form = sourceFormOf(column);
  if (form.kind === WireKind.text || form.kind === WireKind.integer)
    return (bytes, start, end) => bytes.toString('utf8', start, end);
  const cursor = createJsonCursor();
  return (bytes, start, end) => {
    const sink = createByteSink((end - start) * 6 + 64);
    writeCell(sink, form, bytes, start, end);
    openCursor(cursor, sink.bytes.subarray(0, sink.at));
    const cell = readCell(cursor, form);
    return cell === null || cell === undefined ? '' : canonicalText(cell);
  };
}
