export type MergeErrorCode =
  /** A key column of the batch is NULL. */
  | 'MERGE_NULL_KEY'
  /** Two rows of the batch have one key: the caller must fold first. */
  | 'MERGE_DUPLICATE_KEY'
  /** The batch's columns, arrays and schema do not agree in shape, or its key is not the table's. */
  | 'MERGE_BAD_BATCH'
  /** A column's type in the batch cannot be stored as the table's type. */
  | 'MERGE_TYPE_MISMATCH'
  /** Another writer committed a transaction of one of our appIds meanwhile: two owners of one stream. */
  | 'MERGE_TXN_CONFLICT'
  /** After a lost race a row has no base any more, and its place in the quarantine is already decided: prepare again. */
  | 'MERGE_BASE_LOST'
  /** The table was replaced by another one (its id changed). */
  | 'MERGE_TABLE_REPLACED'
  | 'MERGE_CLOSED';

/** `message` says what and what to do, `table` where; keys appear as hashes only. */
export class MergeError extends Error {
  readonly code: MergeErrorCode;
  readonly table: string;
  constructor(code: MergeErrorCode, table: string, message: string, options?: { cause?: unknown }) {
    super(`${message} [table ${table}]`, options);
    this.name = 'MergeError';
    this.code = code;
    this.table = table;
  }
}
