/** What must be right about the server before anything is created. Each refusal has a name and the fix. */
import { ReaderError } from './reader-error.ts';
import { POOLED_REMEDY } from './server-error.ts';
import type { PostgresSource, SourceSession } from './source.ts';

export interface ServerFacts {
  readonly serverVersion: number;
  readonly inRecovery: boolean;
  readonly walLevel: string;
  readonly freeSlots: number;
  readonly freeSenders: number;
  readonly mayReplicate: boolean;
  readonly superuser: boolean;
  readonly role: string;
}

export async function serverFacts(session: SourceSession): Promise<ServerFacts> {
  const [row] = await session.query(`
select json_build_object(
  'serverVersion', current_setting('server_version_num')::int, 'inRecovery', pg_is_in_recovery(),
  'walLevel', current_setting('wal_level'),
  'freeSlots', current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots),
  'freeSenders', current_setting('max_wal_senders')::int - (select count(*) from pg_stat_get_wal_senders()),
  'mayReplicate', r.rolreplication or r.rolsuper or exists (
    select from pg_roles g where g.rolname in ('rds_replication', 'rds_superuser', 'azure_pg_admin') and pg_has_role(r.oid, g.oid, 'member')),
  'superuser', r.rolsuper, 'role', r.rolname) as j
from pg_roles r where r.rolname = current_user`);
  return JSON.parse(row?.['j'] ?? '{}') as ServerFacts;
}

export const MIN_SERVER_VERSION = 140_000;

/** @throws ReaderError SOURCE_VERSION, SOURCE_IS_STANDBY, WAL_LEVEL, NO_REPLICATION_PRIVILEGE */
export function requireServer(facts: ServerFacts): void {
  if (facts.serverVersion < MIN_SERVER_VERSION) {
    throw new ReaderError(
      'SOURCE_VERSION',
      `the server is PostgreSQL ${Math.floor(facts.serverVersion / 10_000)}; 14 or newer is needed`,
      {
        remedy: 'upgrade the server',
      },
    );
  }
  if (facts.inRecovery) {
    throw new ReaderError(
      'SOURCE_IS_STANDBY',
      'the server is a standby (it is in recovery): publications and watermarks need the primary',
      {
        remedy: 'name the primary in source.postgres',
      },
    );
  }
  if (facts.walLevel !== 'logical') {
    throw new ReaderError('WAL_LEVEL', `wal_level is ${facts.walLevel}; logical is needed`, {
      remedy: 'ALTER SYSTEM SET wal_level = logical; and restart the server (Amazon RDS: rds.logical_replication = 1)',
    });
  }
  if (!facts.mayReplicate) {
    throw new ReaderError('NO_REPLICATION_PRIVILEGE', `role "${facts.role}" has no REPLICATION privilege`, {
      remedy: `as a superuser: ALTER ROLE "${facts.role}" REPLICATION; (Amazon RDS: GRANT rds_replication TO "${facts.role}";)`,
    });
  }
}

/**
 * A pooler of any kind makes up the process id that it tells at startup. Only where it differs, two clients take turns: in
 * transaction mode one server process serves both, or several serve one; a pooler in session mode gives each its own.
 * @throws ReaderError SOURCE_POOLED
 */
export async function requireDirect(source: PostgresSource, session: SourceSession): Promise<void> {
  const pid = async (from: SourceSession): Promise<string> =>
    (await from.query('SELECT pg_backend_pid() AS pid'))[0]?.['pid'] ?? '';
  if ((await pid(session)) === String(session.backendPid)) return;
  const other = await source.session('pooler check');
  try {
    const ours = new Set<string>();
    const theirs = new Set<string>();
    for (let turn = 0; turn < TURNS; turn++) {
      ours.add(await pid(session));
      theirs.add(await pid(other));
    }
    if (ours.size === 1 && theirs.size === 1 && [...ours].every((each) => !theirs.has(each))) return;
    throw new ReaderError(
      'SOURCE_POOLED',
      'two connections of ours took turns in one server process: a pooler in transaction mode stands between',
      { remedy: POOLED_REMEDY },
    );
  } finally {
    await other.close();
  }
}

const TURNS = 5;
