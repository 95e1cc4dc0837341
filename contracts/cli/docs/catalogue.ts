/** What the catalogue says of a table, before it is HTML or Markdown: where it comes from and goes to, and its versions. */
import { compareContracts } from '../../engine/compat/compare-contracts.ts';
import type { Change } from '../../engine/compat/change.ts';
import { parseVersion } from '../../engine/compat/version.ts';
import { lakeTableName } from '../../engine/lake-name.ts';
import type { Contract, Server, TableContract } from '../../engine/model.ts';
import { sourceName } from '../../engine/source-name.ts';

export interface LineageStep {
  readonly stage: 'source' | 'topic' | 'table';
  readonly name: string;
  /** Host, format or version; empty when the contract does not say. */
  readonly detail: string;
}

export interface VersionEntry {
  readonly version: string;
  /** The tag that released it; null for the text as it stands. */
  readonly label: string | null;
  /** Against the version before it; null for the first one known. */
  readonly changes: readonly Change[] | null;
}

export interface CatalogueEntry {
  readonly contract: Contract;
  readonly table: TableContract;
  /** `public.orders`: the page's name. */
  readonly page: string;
  readonly owner: string | null;
  readonly lineage: readonly LineageStep[];
  readonly versions: readonly VersionEntry[];
}

export function lineageOf(contract: Contract, table: TableContract): LineageStep[] {
  const { schema, table: name } = sourceName(contract, table);
  const server = (...types: string[]): Server | null =>
    contract.servers.find(({ type }) => types.includes(type)) ?? null;
  const [source, stream] = [server('postgres', 'postgresql'), server('kafka')];
  const lake = contract.servers.find(({ settings }) => settings.get('format') === 'delta') ?? server('s3');
  const topic = stream?.custom.get('topic');
  const pipeline = contract.id.split('.').slice(0, -2).join('.') || 'sluice';
  const location = lake?.settings.get('location') ?? lake?.settings.get('path') ?? null;
  return [
    { stage: 'source', name: `${schema}.${name}`, detail: placeOf(source, 'host', 'database') },
    {
      stage: 'topic',
      name: typeof topic === 'string' ? topic : `${pipeline}.${schema}.${name}`,
      detail: placeOf(stream, 'host', 'format'),
    },
    {
      stage: 'table',
      // Where the contract is silent, the lake's folder is that of the pipeline.
      name:
        location === null ? `${lakeTableName(schema)}/${lakeTableName(name)}` : String(location).replace(/\/+$/, ''),
      detail: lake === null ? 'delta' : placeOf(lake, 'format', 'endpointUrl'),
    },
  ];
}

function placeOf(server: Server | null, ...keys: string[]): string {
  return keys.flatMap((key) => server?.settings.get(key) ?? []).join(' ');
}

/** @param released texts of the same contract with their tags, any order; newest version first in the result */
export function versionsOf(
  current: Contract,
  released: readonly { readonly label: string; readonly contract: Contract }[],
): VersionEntry[] {
  const byVersion = new Map<string, { label: string | null; contract: Contract }>();
  for (const item of released) byVersion.set(item.contract.version, item);
  const tagged = byVersion.get(current.version);
  byVersion.set(current.version, { label: tagged?.label ?? null, contract: current });
  const ordered = [...byVersion.values()].toSorted((a, b) => compareVersions(a.contract.version, b.contract.version));
  return ordered
    .map(({ label, contract }, index): VersionEntry => {
      const before = ordered[index - 1];
      const changes = before === undefined ? null : compareContracts(before.contract, contract);
      return { version: contract.version, label, changes };
    })
    .toReversed();
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [parseVersion(a), parseVersion(b)];
  if (left === null || right === null) return a < b ? -1 : a > b ? 1 : 0;
  return left.major - right.major || left.minor - right.minor || left.patch - right.patch;
}
