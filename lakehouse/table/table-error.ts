/** What can be wrong with a table or an operation on it. Store failures keep their own `StoreError`. */
export type TableErrorCode =
  /** No `_delta_log` with a commit or checkpoint there. */
  | 'TABLE_NOT_FOUND'
  /** Creation found a table. */
  | 'TABLE_EXISTS'
  /** Protocol version or table feature that this code does not implement; the message names it. */
  | 'PROTOCOL_UNSUPPORTED'
  /** A commit between the checkpoint and the newest version is missing. */
  | 'LOG_HOLE'
  /** A commit file of zero bytes, or one that is not lines of JSON actions. */
  | 'LOG_COMMIT_CORRUPT'
  /** The log holds no protocol or no metadata action. */
  | 'LOG_INCOMPLETE'
  /** No readable checkpoint although the commits before it are gone. */
  | 'CHECKPOINT_UNREADABLE'
  /** The state of a version is not what its checksum file says. */
  | 'CHECKSUM_MISMATCH'
  /** The asked version or time is not in the log. */
  | 'VERSION_NOT_FOUND'
  | 'SCHEMA_INVALID'
  /** The commit's actions break the protocol (two adds of one path, …): a defect of the caller. */
  | 'COMMIT_INVALID'
  /** Another writer kept winning the race; nothing of ours is in the table. */
  | 'COMMIT_CONTENTION'
  /** A winning commit conflicts with ours logically; nothing of ours is in the table. */
  | 'COMMIT_CONFLICT'
  /** The store never said whether our commit stands. Data files must stay. */
  | 'COMMIT_OUTCOME_UNKNOWN'
  /** A file that the log names is not there, or not as the log describes it. */
  | 'DATA_FILE_MISSING'
  | 'DATA_FILE_CORRUPT'
  /** Maintenance declined: the message says what it does not understand or which guard holds. */
  | 'UPKEEP_REFUSED';

export interface TableErrorPlace {
  /** Table root URI, without credentials. */
  readonly table: string;
  readonly version?: bigint;
  /** Key below the table root. */
  readonly file?: string;
}

/** `message` says what happened and what to do; `place` where. Never row data. */
export class TableError extends Error {
  readonly code: TableErrorCode;
  readonly place: TableErrorPlace;
  readonly #what: string;
  constructor(code: TableErrorCode, place: TableErrorPlace, message: string, options?: { cause?: unknown }) {
    super(`${message} [${describe(place)}]`, options);
    this.name = 'TableError';
    this.code = code;
    this.place = place;
    this.#what = message;
  }

  /** The same error, of a place that is known better further up; what it names already stays. */
  at(place: Partial<TableErrorPlace>): TableError {
    return new TableError(this.code, { ...place, ...this.place }, this.#what, { cause: this.cause });
  }
}

function describe(place: TableErrorPlace): string {
  const parts = [`table ${place.table}`];
  if (place.version !== undefined) parts.push(`version ${place.version}`);
  if (place.file !== undefined) parts.push(`file ${place.file}`);
  return parts.join(', ');
}
