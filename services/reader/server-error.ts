/** ErrorResponse of the server to ReaderError. Source: PostgreSQL docs, "Error and Notice Message Fields" and appendix A. */
import { ReaderError, type ReaderErrorCode } from './reader-error.ts';

export interface ServerErrorFields {
  readonly sqlstate: string;
  /** The primary message only: detail and hint can hold row data. */
  readonly message: string;
}

/** Body bytes[start .. end): pairs of a field letter and a string, closed by a zero byte. */
export function parseErrorFields(bytes: Buffer, start: number, end: number): ServerErrorFields {
  let sqlstate = '';
  let message = '';
  let at = start;
  while (at < end && bytes[at] !== 0) {
    const letter = bytes[at] as number;
    const stop = bytes.indexOf(0, at + 1);
    const text = bytes.toString('utf8', at + 1, stop < 0 ? end : stop);
    if (letter === 0x43) sqlstate = text;
    else if (letter === 0x4d) message = text;
    at = stop < 0 ? end : stop + 1;
  }
  return { sqlstate, message };
}

interface Known {
  readonly code: ReaderErrorCode;
  readonly remedy: string;
  readonly retriable?: boolean;
}

const REMEDY = {
  password: 'check user and password of source.postgres, and that pg_hba.conf lets this role in from this machine',
  replication: 'as a superuser: ALTER ROLE <role> REPLICATION (Amazon RDS: GRANT rds_replication TO <role>)',
  slots:
    'raise max_replication_slots and restart the server, or drop an unused slot: SELECT pg_drop_replication_slot(…)',
  senders: 'raise max_wal_senders and restart the server, or stop another replication client',
  policies:
    'as a superuser: ALTER ROLE <role> BYPASSRLS, or add a policy that shows all rows, or leave the table out of source.tables',
} as const;

/**
 * What the server would not do now and may do in a moment: serialization failure, deadlock, lock not available, cancelled by
 * somebody, no memory or disk for it (PostgreSQL docs, appendix A).
 */
const PASSING: ReadonlySet<string> = new Set(['40001', '40P01', '55P03', '57014', '53000', '53100', '53200']);

export function knownServerError({ sqlstate, message }: ServerErrorFields): Known {
  if (/row-level security/.test(message)) return { code: 'TABLE_ROW_SECURITY', remedy: REMEDY.policies };
  if (/unsupported startup parameter|pgbouncer/i.test(message)) return { code: 'SOURCE_POOLED', remedy: POOLED_REMEDY };
  // Only a walsender knows these words: somebody between us and the server has dropped `replication=database`.
  if (sqlstate === '42601' && /START_REPLICATION|IDENTIFY_SYSTEM/.test(message)) {
    return { code: 'SOURCE_POOLED', remedy: POOLED_REMEDY };
  }
  if (/max_wal_senders/.test(message)) return { code: 'NO_FREE_SENDER', remedy: REMEDY.senders, retriable: true };
  if (/replication slots are in use/.test(message)) return { code: 'NO_FREE_SLOT', remedy: REMEDY.slots };
  if (
    /permission denied to start WAL sender|must be superuser or replication role|to use replication slots/.test(message)
  ) {
    return { code: 'NO_REPLICATION_PRIVILEGE', remedy: REMEDY.replication };
  }
  switch (sqlstate) {
    case '28P01':
    case '28000':
      return { code: 'SOURCE_AUTHENTICATION', remedy: REMEDY.password };
    case '3D000':
      return { code: 'SOURCE_UNREACHABLE', remedy: 'create the database, or correct its name', retriable: false };
    case '42501':
      return {
        code: 'SOURCE_ACCESS_DENIED',
        remedy: 'run the grants that `sluice init` wrote to grants.sql (`sluice doctor` names those that are missing)',
      };
    case '55006':
      return {
        code: 'SLOT_IN_USE',
        remedy: 'another reader owns the slot; this one waits as a standby',
        retriable: true,
      };
    case '53300':
      return { code: 'SOURCE_UNREACHABLE', remedy: 'the server has no free connections: raise max_connections' };
    case '57P01':
    case '57P02':
    case '57P03':
    case '57P05':
    case '25P03':
    case '25P04':
      return { code: 'SOURCE_LOST', remedy: 'the server has ended the session; the reader tries again by itself' };
    default:
      return PASSING.has(sqlstate)
        ? { code: 'SOURCE_QUERY_FAILED', remedy: 'it is asked again by itself', retriable: true }
        : { code: 'SOURCE_QUERY_FAILED', remedy: '' };
  }
}

export const POOLED_REMEDY =
  'name the PostgreSQL server itself, not PgBouncer or another pooler in transaction mode (usually another port or host name)';

export function serverError(fields: ServerErrorFields, what: string): ReaderError {
  const known = knownServerError(fields);
  return new ReaderError(known.code, `${what}: ${fields.message} (SQLSTATE ${fields.sqlstate})`, {
    remedy: known.remedy,
    cause: new ServerFailure(fields),
    ...(known.retriable === undefined ? {} : { retriable: known.retriable }),
  });
}

/** The server's own words, as the cause of a ReaderError; `sqlstate` for callers that must tell cases apart. */
export class ServerFailure extends Error {
  readonly sqlstate: string;
  constructor(fields: ServerErrorFields) {
    super(fields.message);
    this.name = 'ServerFailure';
    this.sqlstate = fields.sqlstate;
  }
}

export function sqlstateOf(error: unknown): string | null {
  return error instanceof ReaderError && error.cause instanceof ServerFailure ? error.cause.sqlstate : null;
}
