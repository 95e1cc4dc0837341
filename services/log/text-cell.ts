/**
 * PostgreSQL's text to a cell without an envelope in between. Whatever is not plain goes through the envelope's own writer and
 * reader, so that a value is the same cell on either way.
 */
import type { Cell } from '../../contracts/engine/gate.ts';
import { createByteSink } from './byte-sink.ts';
import { readCell, wholeNumber } from './cell-decode.ts';
import { writeCell } from './cell-encode.ts';
import { createJsonCursor, openCursor } from './json-cursor.ts';
import { WireKind, type WireForm } from './wire-kind.ts';

export { wireFormOf, WireKind, type WireForm } from './wire-kind.ts';

const SINK_BYTES = 4096;
const sink = createByteSink(SINK_BYTES);
const cursor = createJsonCursor();

export function cellOfText(form: WireForm, bytes: Buffer, start: number, end: number): Cell {
  switch (form.kind) {
    case WireKind.text:
      return bytes.toString('utf8', start, end);
    case WireKind.boolean:
      return bytes[start] === 0x74;
    case WireKind.integer:
      return wholeNumber(bytes.toString('latin1', start, end));
    default: {
      sink.at = 0;
      sink.start = 0;
      writeCell(sink, form, bytes, start, end);
      openCursor(cursor, sink.bytes.subarray(0, sink.at));
      return readCell(cursor, form);
    }
  }
}
