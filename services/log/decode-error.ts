/** Why a record of a data topic could not be read as a change. Quarantined with its coordinates; never carries data. */
export type DecodeErrorCode =
  /** The bytes are not JSON. */
  | 'DECODE_NOT_JSON'
  /** JSON, but not a change envelope. */
  | 'DECODE_NOT_ENVELOPE'
  /** The record has no key, although its table has one. */
  | 'DECODE_NULL_KEY'
  /** Written by a newer Sluice: upgrade before reading on. Stops the table; not a matter of this one record. */
  | 'DECODE_FORMAT_NEWER';

/** Where a record stands in the log. */
export interface RecordPlace {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}

export class DecodeError extends Error {
  readonly code: DecodeErrorCode;
  readonly place: RecordPlace;
  constructor(code: DecodeErrorCode, place: RecordPlace, what: string, options?: { cause?: unknown }) {
    super(`${place.topic}[${place.partition}] offset ${place.offset}: ${what}`, options);
    this.name = 'DecodeError';
    this.code = code;
    this.place = place;
  }
}
