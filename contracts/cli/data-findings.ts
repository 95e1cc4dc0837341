/** What the lake and the log say of a contract: drift of the Delta table, and how many rows of the last days it would hold back. */
import type { CatalogTable } from '../engine/catalog.ts';
import type { Assessment } from '../engine/compat/assess.ts';
import type { Finding } from '../engine/finding.ts';
import type { Contract, TableContract } from '../engine/model.ts';
import { lakeRows, logRows, measureBlast, withBlast } from './blast-radius.ts';
import type { CheckOptions } from './check-options.ts';
import { findingAt } from './drift-finding.ts';
import { lakeDrift } from './lake-drift.ts';
import type { LakeSession, Ports } from './ports.ts';
import { sourceName } from '../engine/source-name.ts';
import { matchesTable } from './table-name.ts';

export interface LakeCheck {
  readonly lake: LakeSession | null;
  readonly tables: readonly CatalogTable[] | null;
  readonly since: bigint | null;
  readonly options: CheckOptions;
  /** What the comparison found, without the lake. */
  readonly alone: readonly Finding[];
}

/** The comparison's findings, with row counts where they are asked for, and the lake's drift. */
export async function lakeFindings(
  contract: Contract,
  assessment: Assessment | null,
  { lake, tables, since, options, alone }: LakeCheck,
): Promise<Finding[]> {
  if (lake === null) return [...alone];
  let findings = [...alone];
  const drift: Finding[] = [];
  for (const table of contract.tables.filter((item) => matchesTable(options.table, contract, item))) {
    const name = sourceName(contract, table);
    const found = await lake.table(name.schema, name.table);
    if (found === null) {
      drift.push(
        findingAt(contract, 'info', 'LAKE_TABLE_MISSING', table.name, 'the lake has no such table yet', table.path),
      );
      continue;
    }
    const live = tables === null ? null : liveTable(contract, table, tables);
    drift.push(...lakeDrift(contract, table, found.fields, live));
    if (since === null || options.data === null || options.config !== null) continue;
    const blast = await measureBlast(contract, table, lakeRows(found, since));
    findings = withBlast(findings, assessment?.changes ?? [], blast, contract, table, options.data);
  }
  return [...findings, ...drift];
}

const EVENTS_MAX = 100_000;

/** The same counts over the newest events of the log. */
export async function logFindings(
  ports: Ports,
  contract: Contract,
  assessment: Assessment | null,
  { since, options, found }: { since: bigint | null; options: CheckOptions; found: readonly Finding[] | null },
): Promise<Finding[] | null> {
  if (since === null || options.data === null || options.config === null || found === null) return null;
  const session = await ports.stream(options.config);
  try {
    let findings = [...found];
    for (const table of contract.tables.filter((item) => matchesTable(options.table, contract, item))) {
      const { schema, table: name } = sourceName(contract, table);
      const sample = await session.sample(schema, name, { sinceMicros: since, rowsMax: EVENTS_MAX });
      if (sample === null) continue;
      const blast = await measureBlast(contract, table, logRows(sample));
      findings = withBlast(findings, assessment?.changes ?? [], blast, contract, table, options.data);
    }
    return findings;
  } finally {
    await session.close();
  }
}

export function liveTable(
  contract: Contract,
  table: TableContract,
  tables: readonly CatalogTable[],
): CatalogTable | null {
  const name = sourceName(contract, table);
  return tables.find((live) => live.schema === name.schema && live.table === name.table) ?? null;
}
