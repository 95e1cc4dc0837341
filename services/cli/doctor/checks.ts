/** What a first user gets wrong, each with its fix. A check never throws: what it cannot do is its finding. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseContract } from '../../../contracts/engine/parse.ts';
import { probeConditionalPut } from '../../../lakehouse/store/probe.ts';
import { listTables, matchesGlobs, type SourceTable } from '../../reader/catalog.ts';
import { requireDirect, serverFacts, requireServer, type ServerFacts } from '../../reader/preflight.ts';
import { createPublicationSql, findPublication, missingTables, requireComplete } from '../../reader/publication.ts';
import { ReaderError } from '../../reader/reader-error.ts';
import { findSlot, requireOwnSlot } from '../../reader/slot.ts';
import type { PostgresSource, SourceSession } from '../../reader/source.ts';
import { refusalOf } from '../../reader/table-selection.ts';
import type { Config } from '../../runtime/config.ts';
import { withoutCredentials } from '../../runtime/logger.ts';
import { openLake } from '../assemble/lake.ts';
import { openLog } from '../assemble/log.ts';
import { openSource } from '../assemble/source.ts';
import { explainFailure } from '../explain-failure.ts';
import { readIdentity } from '../assemble/identity.ts';
import { checkTakeover } from './adopt-checks.ts';

export interface CheckResult {
  readonly name: string;
  readonly status: 'ok' | 'warning' | 'error';
  readonly detail: string;
  /** What to do, with the SQL where there is one; empty when ok. */
  readonly fix: string;
}

type Report = (result: CheckResult) => void;

const ok = (name: string, detail: string): CheckResult => ({ name, status: 'ok', detail, fix: '' });
const bad = (name: string, detail: string, fix: string): CheckResult => ({ name, status: 'error', detail, fix });
const warn = (name: string, detail: string, fix: string): CheckResult => ({ name, status: 'warning', detail, fix });

export async function runChecks(config: Config, reload: () => Config, report: Report): Promise<void> {
  const source = await attempt('source reachable', report, () => openSource(config, reload));
  if (source !== null) await checkSource(config, source, report);
  await attempt('log reachable', report, async () => {
    const log = await openLog(config, reload);
    try {
      await log.admin.logId();
      report(ok('log reachable', config.log.kind === 'kafka' ? config.log.brokers.join(', ') : config.log.path));
    } finally {
      await log.close();
    }
  });
  await attempt('lake reachable', report, () => checkLake(config, report));
  checkContracts(config, report);
}

async function attempt<T>(name: string, report: Report, action: () => Promise<T>): Promise<T | null> {
  try {
    return await action();
  } catch (error) {
    const failure = explainFailure(error);
    report(bad(name, withoutCredentials(failure.message), failure.remedy));
    return null;
  }
}

async function checkSource(config: Config, source: PostgresSource, report: Report): Promise<void> {
  const session = await attempt('source reachable', report, () => source.session('doctor'));
  if (session === null) return;
  try {
    const facts = await attempt('server', report, () => serverFacts(session));
    if (facts === null) return;
    report(ok('source reachable', `PostgreSQL ${Math.floor(facts.serverVersion / 10_000)} as ${facts.role}`));
    await attempt('server', report, async () => {
      requireServer(facts);
      await requireDirect(source, session);
      report(ok('server', 'primary, wal_level logical, direct connection, role may replicate'));
    });
    await checkSlot(config, session, facts, report);
    await attempt('replication connection', report, async () => {
      const replication = await source.replication('doctor');
      await replication.close();
      report(ok('replication connection', 'pg_hba.conf lets this role replicate'));
    });
    await checkTables(config, session, report);
    await attempt('takeover', report, () => checkTakeover(config, session, report));
    await checkMessages(session, report);
  } finally {
    await session.close();
  }
}

async function checkSlot(config: Config, session: SourceSession, facts: ServerFacts, report: Report): Promise<void> {
  await attempt('slot', report, async () => {
    const slot = await findSlot(session, config.source.slot);
    if (slot === null) {
      const fix = 'ALTER SYSTEM SET max_replication_slots = 20; and restart, or drop a slot that nothing needs';
      if (facts.freeSlots < 1) return report(bad('slot', 'no free replication slot', fix));
      if (facts.freeSenders < 1)
        return report(bad('slot', 'no free WAL sender', 'ALTER SYSTEM SET max_wal_senders = 20; and restart'));
      return report(
        ok(
          'slot',
          `${config.source.slot} will be created; ${facts.freeSlots} slots and ${facts.freeSenders} senders are free`,
        ),
      );
    }
    const [row] = await session.query('select current_database() as name');
    requireOwnSlot(slot, row?.['name'] ?? '');
    if (slot.walStatus === 'lost' || slot.invalidationReason !== null) {
      return report(
        bad(
          'slot',
          `${slot.name} is ${slot.invalidationReason ?? slot.walStatus}: its WAL is gone`,
          'sluice repair --all reads the tables again',
        ),
      );
    }
    return report(
      ok('slot', `${slot.name} exists${slot.active ? ' and is in use' : ''}, wal_status ${slot.walStatus}`),
    );
  });
}

async function checkTables(config: Config, session: SourceSession, report: Report): Promise<void> {
  await attempt('tables', report, async () => {
    const all = (await listTables(session)).filter((table) =>
      matchesGlobs(config.source.tables, table.schema, table.table),
    );
    if (all.length === 0)
      return report(
        bad(
          'tables',
          `no table matches ${config.source.tables.join(', ')}`,
          'correct source.tables: globs on schema.table',
        ),
      );
    for (const table of all) checkTable(table, report);
    const taken = all.filter((table) => refusalOf(table) === null);
    report(ok('tables', `${taken.length} of ${all.length} tables can be followed`));
    await checkPublication(config, session, taken, report);
    return undefined;
  });
}

function checkTable(table: SourceTable, report: Report): void {
  const refusal = refusalOf(table);
  const name = `table ${table.schema}.${table.table}`;
  if (refusal !== null) report(bad(name, refusal.message, refusal.remedy));
  else if (table.replicaIdentity === 'f') {
    report(
      warn(
        name,
        'replica identity FULL: every update and delete sends the whole old row',
        'keep it if contracts use before-images; else ALTER TABLE … REPLICA IDENTITY DEFAULT',
      ),
    );
  }
}

async function checkPublication(
  config: Config,
  session: SourceSession,
  tables: readonly SourceTable[],
  report: Report,
): Promise<void> {
  const name = config.source.publication;
  const publication = await findPublication(session, name);
  if (publication === null) {
    const [row] = await session.query(
      `select has_database_privilege(current_user, current_database(), 'CREATE')::text as may`,
    );
    const sql = createPublicationSql(name, tables, session.serverVersion);
    if (row?.['may'] === 'true') report(ok('publication', `${name} will be created`));
    else
      report(
        bad(
          'publication',
          `${name} does not exist and this role cannot create it`,
          `as the owner of the tables: ${sql};`,
        ),
      );
    return;
  }
  try {
    requireComplete(
      publication,
      tables.some((table) => table.relkind === 'p'),
    );
  } catch (error) {
    if (!(error instanceof ReaderError)) throw error;
    report(bad('publication', error.message, error.remedy));
    return;
  }
  const missing = missingTables(publication, tables);
  if (missing.length === 0) report(ok('publication', `${name} has all ${tables.length} tables`));
  else {
    const names = missing.map((table) => `"${table.schema}"."${table.table}"`).join(', ');
    report(
      warn('publication', `${name} lacks ${names}`, `as their owner: ALTER PUBLICATION "${name}" ADD TABLE ${names};`),
    );
  }
}

async function checkMessages(session: SourceSession, report: Report): Promise<void> {
  await attempt('watermarks', report, async () => {
    const [row] = await session.query(
      `select bool_and(has_function_privilege(oid, 'execute'))::text as may from pg_proc where proname = 'pg_logical_emit_message'`,
    );
    if (row?.['may'] === 'true')
      report(ok('watermarks', 'pg_logical_emit_message may be called; no heartbeat table is needed'));
    else
      report(
        bad(
          'watermarks',
          'this role may not call pg_logical_emit_message',
          'GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) TO this role',
        ),
      );
  });
}

async function checkLake(config: Config, report: Report): Promise<void> {
  const lake = openLake(config, null, { requests: 0, sentBytes: 0, receivedBytes: 0 });
  try {
    await probeConditionalPut(lake);
    report(ok('lake reachable', `${lake.uri} is writable and honours conditional PUT`));
    const identity = await readIdentity(lake);
    const other = identity !== null && (identity.name !== config.name || identity.slot !== config.source.slot);
    if (other)
      report(
        bad(
          'lake',
          `it is kept by pipeline '${identity.name}' through slot '${identity.slot}'`,
          'use another lake.uri, or tear the other pipeline down',
        ),
      );
  } finally {
    await lake.close();
  }
}

function checkContracts(config: Config, report: Report): void {
  let files: string[];
  try {
    files = readdirSync(config.contracts).filter((file) => file.endsWith('.odcs.yaml'));
  } catch {
    report(
      warn(
        'contracts',
        `${config.contracts} does not exist`,
        'contracts are generated there on first sight of each table; `sluice init` writes them now',
      ),
    );
    return;
  }
  let valid = 0;
  for (const file of files) {
    const path = join(config.contracts, file);
    const { contract, findings } = parseContract(readFileSync(path, 'utf8'), path);
    const first = findings.find((finding) => finding.level === 'error');
    if (contract !== null) valid += 1;
    else
      report(
        bad(
          `contract ${file}`,
          `line ${first?.line ?? 1}: ${first?.message ?? 'not valid'}`,
          first?.hint ?? 'run `contracts check` for all findings',
        ),
      );
  }
  report(ok('contracts', `${valid} of ${files.length} are valid`));
}
