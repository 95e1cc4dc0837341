import { ExitCode, SluiceError } from '../runtime/errors.ts';

export interface Failure {
  readonly message: string;
  readonly remedy: string;
  readonly exit: ExitCode;
}

/** Errors of parts that know nothing of exit codes, by their `code`: what a person should do. */
const REMEDIES: Readonly<Record<string, readonly [ExitCode, string]>> = {
  STORE_NOT_FOUND: [ExitCode.findings, 'the object is gone: run `sluice table fsck`'],
  STORE_CONTAINER_MISSING: [ExitCode.environment, 'create the bucket, or correct lake.uri'],
  STORE_ACCESS_DENIED: [ExitCode.environment, 'give these credentials read, write, list and delete on lake.uri'],
  STORE_UNAVAILABLE: [ExitCode.environment, 'check lake.s3.endpoint and the network, then try again'],
  STORE_THROTTLED: [ExitCode.environment, 'the store asks to slow down: try again later'],
  STORE_OUTCOME_UNKNOWN: [ExitCode.environment, 'the answer was lost; running again settles it'],
  STORE_CONDITION_IGNORED: [ExitCode.environment, 'use a store that honours If-None-Match on PUT'],
  STORE_DISK_FULL: [ExitCode.environment, 'free space; work resumes by itself'],
  STORE_BAD_URI: [ExitCode.usage, 'lake.uri is a path, file:///…, or s3://bucket/prefix'],
  TABLE_NOT_FOUND: [ExitCode.usage, 'name a Delta table: SCHEMA.TABLE of the lake, a path, or a URI'],
  TABLE_EXISTS: [ExitCode.usage, 'choose another place, or use the table that is there'],
  VERSION_NOT_FOUND: [ExitCode.usage, '`sluice table history` lists the versions'],
  SCHEMA_INVALID: [ExitCode.findings, '`sluice table schema` shows the columns'],
  PROTOCOL_UNSUPPORTED: [ExitCode.namedState, 'use the engine that wrote the table, or drop the feature there'],
  LOG_HOLE: [ExitCode.namedState, 'restore the missing commit from a backup of _delta_log'],
  LOG_COMMIT_CORRUPT: [ExitCode.namedState, 'restore the commit from a backup of _delta_log'],
  LOG_INCOMPLETE: [ExitCode.namedState, 'restore _delta_log from a backup'],
  CHECKPOINT_UNREADABLE: [ExitCode.namedState, 'restore the checkpoint or the commits before it from a backup'],
  COMMIT_CONTENTION: [ExitCode.environment, 'other writers keep winning: try again with fewer of them'],
  COMMIT_CONFLICT: [ExitCode.environment, 'another writer changed the table meanwhile: try again'],
  COMMIT_OUTCOME_UNKNOWN: [ExitCode.environment, 'the answer was lost; running again settles it'],
  DATA_FILE_MISSING: [ExitCode.findings, 'run `sluice table fsck`, then restore the file or an older version'],
  DATA_FILE_CORRUPT: [ExitCode.findings, 'run `sluice table fsck`, then restore the file or an older version'],
  UPKEEP_REFUSED: [ExitCode.usage, 'nothing was changed'],
  LOG_UNAVAILABLE: [ExitCode.environment, 'check that the log answers, then try again'],
  LOG_AUTHENTICATION: [ExitCode.environment, 'check log.sasl and log.ssl'],
  LOG_ACCESS_DENIED: [ExitCode.environment, 'give this user read, write and transactional ids on the topics'],
  LOG_FENCED: [ExitCode.namedState, 'another reader took over; stop one of the two'],
  LOG_DISK_FULL: [ExitCode.environment, 'free space under log.path; work resumes by itself'],
  LOG_OFFSET_OUT_OF_RANGE: [ExitCode.namedState, 'retention removed events that were not applied: run `sluice repair`'],
  LOG_FORMAT_NEWER: [ExitCode.namedState, 'a newer sluice wrote this log: upgrade this one'],
  ECONNREFUSED: [ExitCode.environment, 'nothing listens there: check host and port'],
  ENOTFOUND: [ExitCode.environment, 'the host name does not resolve'],
  ETIMEDOUT: [ExitCode.environment, 'no answer: check the network'],
  '28P01': [ExitCode.environment, 'wrong password: correct source.password'],
  '28000': [ExitCode.environment, 'the server refuses this login: check pg_hba.conf'],
  '3D000': [ExitCode.environment, 'the database does not exist: correct source.database'],
};

/** How errors exit that bring their own remedy (ReaderError, StreamError, MergeError, TableError). */
const EXITS: Readonly<Record<string, ExitCode>> = {
  SOURCE_URL_INVALID: ExitCode.usage,
  NO_TABLES: ExitCode.usage,
  SOURCE_UNREACHABLE: ExitCode.environment,
  SOURCE_LOST: ExitCode.environment,
  SOURCE_AUTHENTICATION: ExitCode.environment,
  SOURCE_TLS: ExitCode.environment,
  SOURCE_ACCESS_DENIED: ExitCode.environment,
  SOURCE_VERSION: ExitCode.environment,
  SOURCE_IS_STANDBY: ExitCode.environment,
  SOURCE_POOLED: ExitCode.environment,
  NO_REPLICATION_PRIVILEGE: ExitCode.environment,
  WAL_LEVEL: ExitCode.environment,
  NO_FREE_SLOT: ExitCode.environment,
  NO_FREE_SENDER: ExitCode.environment,
  SLOT_IN_USE: ExitCode.environment,
  PUBLICATION_DENIED: ExitCode.environment,
  SLOT_FOREIGN: ExitCode.namedState,
  TABLE_NO_KEY: ExitCode.namedState,
  TABLE_KEY_MISMATCH: ExitCode.namedState,
  TABLE_ROW_SECURITY: ExitCode.namedState,
  TABLE_UNLOGGED: ExitCode.namedState,
  PUBLICATION_MISSING_TABLE: ExitCode.namedState,
  PUBLICATION_INCOMPLETE: ExitCode.namedState,
  STATE_FORMAT_NEWER: ExitCode.namedState,
  CONTINUITY: ExitCode.namedState,
};

/** What to print for any error, and how to exit. */
export function explainFailure(error: unknown): Failure {
  if (error instanceof SluiceError) return { message: error.message, remedy: error.remedy, exit: error.exit };
  if (!(error instanceof Error)) return { message: String(error), remedy: '', exit: ExitCode.findings };
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const { code, remedy, exit } = cause as { code?: unknown; remedy?: unknown; exit?: unknown };
    if (typeof remedy === 'string' && isExit(exit)) return { message: error.message, remedy, exit };
    const own = typeof code === 'string' ? EXITS[code] : undefined;
    if (own !== undefined && typeof remedy === 'string') return { message: error.message, remedy, exit: own };
    const known = typeof code === 'string' ? REMEDIES[code] : undefined;
    if (known !== undefined) return { message: error.message || String(code), remedy: known[1], exit: known[0] };
  }
  return { message: error.message || error.name, remedy: 'set SLUICE_DEBUG=1 for the stack', exit: ExitCode.findings };
}

function isExit(value: unknown): value is ExitCode {
  return typeof value === 'number' && value >= 0 && value <= 4;
}
