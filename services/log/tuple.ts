/**
 * One row as PostgreSQL sent it: column text as byte ranges of the message (WAL) or line (COPY) that holds it.
 * The reader fills and reuses one such object; nothing is copied until the envelope encoder writes it out.
 */

/** What stands in a column. The values are pgoutput's own letters (PostgreSQL docs, "TupleData"). */
export const CellKind = {
  /** SQL NULL (`n`). */
  null: 0x6e,
  /** Unchanged TOAST, not sent (`u`); also a column that a fill row leaves out. */
  unchanged: 0x75,
  /** Text in the client encoding, UTF-8 (`t`). */
  text: 0x74,
} as const;

export interface Tuple {
  /** Holds the text of every `text` cell: column i is bytes[starts[i] .. ends[i]), absolute positions. */
  readonly bytes: Buffer;
  /** One `CellKind` a column, in the shape's column order; may be longer than the shape. */
  readonly kinds: Uint8Array;
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}
