/**
 * A query that cannot run. SQL_INVALID: not one SELECT, or DuckDB refuses it (its message names what, never row data).
 * SQL_TOO_LARGE: files to fetch or convert exceed the bound of bytes on local disk, or DuckDB's memory is too small.
 */
export type SqlErrorCode = 'SQL_INVALID' | 'SQL_TOO_LARGE';

export class SqlError extends Error {
  readonly code: SqlErrorCode;
  constructor(code: SqlErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'SqlError';
    this.code = code;
  }
}
