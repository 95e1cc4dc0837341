/**
 * A Parquet file that cannot be written or read. `file` is the object key or URI (never row data), `code` says what to do:
 * PARQUET_CORRUPT (truncated, wrong magic, a page that does not decode: restore or rewrite the file),
 * PARQUET_UNSUPPORTED (a codec, encoding or shape that no rule here covers),
 * PARQUET_TYPE_MISMATCH (the file's column cannot be read as the table's type),
 * PARQUET_ENCODE_FAILED (the batch does not fit its schema; a fault of the caller).
 */
export type ParquetErrorCode =
  | 'PARQUET_CORRUPT'
  | 'PARQUET_UNSUPPORTED'
  | 'PARQUET_TYPE_MISMATCH'
  | 'PARQUET_ENCODE_FAILED';

export class ParquetError extends Error {
  readonly code: ParquetErrorCode;
  readonly file: string;
  constructor(code: ParquetErrorCode, file: string, message: string, options?: { cause?: unknown }) {
    super(`${file}: ${message}`, options);
    this.name = 'ParquetError';
    this.code = code;
    this.file = file;
  }
}
