/** Errors of the reader. `code` is stable; the message says what, where and what to do, and never holds row data or secrets. */
export type ReaderErrorCode =
  /** A message or tuple that does not fit pgoutput's grammar or its RELATION. */
  | 'PGOUTPUT_INVALID'
  | 'SOURCE_URL_INVALID'
  | 'SOURCE_UNREACHABLE'
  | 'SOURCE_LOST'
  | 'SOURCE_AUTHENTICATION'
  | 'SOURCE_TLS'
  | 'SOURCE_ACCESS_DENIED'
  | 'SOURCE_QUERY_FAILED'
  | 'SOURCE_VERSION'
  | 'SOURCE_IS_STANDBY'
  | 'SOURCE_POOLED'
  | 'NO_REPLICATION_PRIVILEGE'
  | 'WAL_LEVEL'
  | 'NO_FREE_SLOT'
  | 'NO_FREE_SENDER'
  | 'SLOT_IN_USE'
  | 'SLOT_FOREIGN'
  | 'CONTRACT_FAILED'
  | 'PII_KEY_MISSING'
  | 'TABLE_NO_KEY'
  | 'TABLE_KEY_MISMATCH'
  | 'TABLE_ROW_SECURITY'
  | 'TABLE_NOT_FOUND'
  | 'TABLE_UNLOGGED'
  /** Two tables, one folder in the lake. */
  | 'TABLE_NAME_CLASH'
  | 'NO_TABLES'
  | 'PUBLICATION_MISSING_TABLE'
  | 'PUBLICATION_INCOMPLETE'
  | 'PUBLICATION_DENIED'
  | 'STATE_FORMAT_NEWER'
  | 'STATE_CORRUPT'
  | 'TRANSACTION_TOO_LARGE'
  | 'VALUE_TOO_LARGE'
  /** Broken continuity; `state` of the ContinuityError says which. */
  | 'CONTINUITY';

export class ReaderError extends Error {
  readonly code: ReaderErrorCode;
  /** A later attempt may succeed with nothing changed by a person. */
  readonly retriable: boolean;
  /** One line: what to do, with the SQL where there is one. */
  readonly remedy: string;
  constructor(
    code: ReaderErrorCode,
    message: string,
    options: { readonly remedy?: string; readonly cause?: unknown; readonly retriable?: boolean } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ReaderError';
    this.code = code;
    this.remedy = options.remedy ?? '';
    this.retriable = options.retriable ?? (code === 'SOURCE_UNREACHABLE' || code === 'SOURCE_LOST');
  }
}
