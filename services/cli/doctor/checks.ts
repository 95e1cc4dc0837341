/** What a first user gets wrong, each with its fix. A check never throws: what it cannot do is its finding. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Finding } from '../../../contracts/engine/finding.ts';
import { ContractError, parseContract } from '../../../contracts/engine/parse.ts';
import { probeConditionalPut } from '../../../lakehouse/store/probe.ts';
import { requireDirect, serverFacts, requireServer, type ServerFacts } from '../../reader/preflight.ts';
import { findSlot, requireOwnSlot } from '../../reader/slot.ts';
import type { PostgresSource, SourceSession } from '../../reader/source.ts';
import type { Config } from '../../runtime/config.ts';
import { contractFolder } from '../../ingest/contract-files.ts';
import { checkAgainstSource } from '../assemble/contract-check.ts';
import { openLake } from '../assemble/lake.ts';
import { openLog } from '../assemble/log.ts';
import { needsNoSource, openSource } from '../assemble/source.ts';
import { readIdentity } from '../assemble/identity.ts';
import { checkTakeover } from './adopt-checks.ts';
import { attempt, bad, ok, warn, type Report } from './check.ts';
import { checkDisk, checkSettings } from './server-settings.ts';
import { checkTables } from './table-checks.ts';

export async function runChecks(config: Config, reload: () => Config, report: Report): Promise<void> {
  const apart = needsNoSource(config);
  if (apart) report(ok('source', 'none is named, and none is needed: Debezium writes the topics'));
  const source = apart ? null : await attempt('source reachable', report, () => openSource(config, reload));
  if (source !== null) await checkSource(config, source, report);
  await attempt('log reachable', report, async () => {
    const log = await openLog(config, reload);
    try {
      await log.admin.logId();
      report(ok('log reachable', config.log.kind === 'kafka' ? config.log.brokers.join(', ') : config.log.path));
      if (config.log.kind === 'embedded') await checkDisk(config.log.path, report);
    } finally {
      await log.close();
    }
  });
  const lake = await attempt('lake reachable', report, () => checkLake(config, report));
  await attempt('contracts', report, () => checkContracts(config, report, lake === null ? null : source));
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
    await attempt('tables', report, () => checkTables(config, session, report));
    await attempt('server settings', report, () => checkSettings(session, report));
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

/** True when it is reachable. */
async function checkLake(config: Config, report: Report): Promise<true> {
  const lake = openLake(config);
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
    return true;
  } finally {
    await lake.close();
  }
}

/** `source`: its tables must have the columns that the contracts name; null = it or the lake is away. */
async function checkContracts(config: Config, report: Report, source: PostgresSource | null): Promise<void> {
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
  const unknown = source === null ? [] : await unknownColumns(config, source);
  for (const { file, line, message, hint } of unknown)
    report(bad('contracts', `${file}:${line}: ${message}`, hint ?? 'correct the contract'));
  if (unknown.length === 0) report(ok('contracts', `${valid} of ${files.length} are valid`));
}

/** What `sluice run` would refuse before it starts. */
async function unknownColumns(config: Config, source: PostgresSource): Promise<readonly Finding[]> {
  const lake = openLake(config);
  try {
    await checkAgainstSource(source, config, contractFolder(config.contracts), lake);
    return [];
  } catch (error) {
    if (!(error instanceof ContractError)) throw error;
    return error.findings.filter(({ code }) => code === 'COLUMN_MISSING');
  } finally {
    await lake.close();
  }
}
