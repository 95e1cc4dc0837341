/**
 * CREATE TABLE for PostgreSQL, with the contract's conditions as CHECKs, its enums and domains, and its comments. It runs on
 * an empty database, and `infer --from ddl` reads the same contract from it.
 */
import { keyColumns } from '../model.ts';
import type { Column, Contract, LibraryRule, SqlRule, TableContract } from '../model.ts';
import { parsePgType } from '../pg-type.ts';
import { mapContractColumn } from '../type-table.ts';
import type { TypeMapping } from '../type-table.ts';
import { columnConditions } from './conditions.ts';
import { enforcedOn } from './enforced.ts';
import type { ExportResult, LossyItem } from './export-result.ts';
import { lostPromises } from './lost-promises.ts';

interface Draft {
  readonly table: TableContract;
  readonly lossy: LossyItem[];
  readonly before: Set<string>;
}

export function exportPostgresDdl(contract: Contract, table: TableContract): ExportResult {
  const unique = table.rules.filter(isUniqueRule);
  const checks = table.rules.filter(isCheckRule);
  const lossy = lostPromises(contract, table, {
    target: 'PostgreSQL DDL',
    lake: false,
    keys: true,
    uniqueness: true,
    defaults: true,
    partitions: false,
    unknownColumns: false,
    rules: new Set([...unique, ...checks].map((rule) => rule.id)),
  });
  const draft: Draft = { table, lossy, before: new Set() };
  const [schema, name] = nameOf(contract, table);
  const qualified = `${quoted(schema)}.${quoted(name)}`;
  if (schema !== 'public') draft.before.add(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)};`);
  const lines = table.columns.map((column) => `  ${columnLine(column, draft)}`);
  const keys = keyColumns(table);
  if (keys.length > 0) lines.push(`  PRIMARY KEY (${keys.map((column) => quoted(column.name)).join(', ')})`);
  const keyNames = sortedNames(keys.map((column) => column.name));
  for (const rule of unique)
    if (sortedNames(rule.properties ?? []) !== keyNames)
      lines.push(`  UNIQUE (${(rule.properties ?? []).map(quoted).join(', ')})`);
  for (const rule of checks) lines.push(`  CONSTRAINT ${quoted(rule.id)} CHECK (${checkOf(rule) ?? 'true'})`);
  for (const relationship of [...table.relationships, ...table.columns.flatMap((column) => column.relationships)])
    lossy.push({
      subject: table.name,
      message: `the foreign key to ${relationship.to.join(', ')} is left out: the other table may not be there`,
    });
  const comments = [
    ...(table.description === null ? [] : [`COMMENT ON TABLE ${qualified} IS ${literal(table.description)};`]),
    ...table.columns.flatMap((column) =>
      column.description === null
        ? []
        : [`COMMENT ON COLUMN ${qualified}.${quoted(column.name)} IS ${literal(column.description)};`],
    ),
    ...identityOf(table, qualified),
  ];
  const text = [`CREATE TABLE ${qualified} (`, lines.join(',\n'), ');', ...comments].join('\n') + '\n';
  return { text, before: [...draft.before], lossy };
}

function identityOf(table: TableContract, name: string): string[] {
  return table.replicaIdentity === 'full' || table.replicaIdentity === 'nothing'
    ? [`ALTER TABLE ${name} REPLICA IDENTITY ${table.replicaIdentity.toUpperCase()};`]
    : [];
}

function columnLine(column: Column, draft: Draft): string {
  const { table, lossy } = draft;
  const mapping = mapContractColumn(column);
  const written = column.physicalTypes.postgres ?? mapping.physicalType;
  const subject = `${table.name}.${column.name}`;
  const labels = typeBefore(column, written, mapping, subject, draft);
  const enforced = enforcedOn(column, table);
  const parts = [quoted(column.name), written];
  if (!enforced.nullable) parts.push('NOT NULL');
  if (column.unique) parts.push('UNIQUE');
  if (column.default !== undefined && column.default !== null)
    parts.push(`DEFAULT ${typeof column.default === 'string' ? literal(column.default) : String(column.default)}`);
  const conditions = columnConditions(column, enforced, mapping, quoted(column.name), 'postgres');
  const sized = parsePgType(written).args.length > 0;
  for (const { kind, expression } of conditions.list) {
    // An enum's labels are its own check, and char_length repeats what varchar(n) says.
    if ((kind === 'values' && labels) || (kind === 'max_length' && sized)) continue;
    parts.push(`CHECK (${expression})`);
  }
  for (const item of conditions.lost) lossy.push({ subject, message: `PostgreSQL DDL has no place for ${item}` });
  return parts.join(' ');
}

/** Makes a type that the server does not have; true when the type itself closes the list of values. */
function typeBefore(column: Column, written: string, mapping: TypeMapping, subject: string, draft: Draft): boolean {
  const type = parsePgType(written);
  const extension = EXTENSIONS[type.name];
  if (extension !== undefined) draft.before.add(`CREATE EXTENSION IF NOT EXISTS ${extension};`);
  if (type.known) return false;
  const name = written.trim().replace(/(?:\s*\[\d*\])+$|\s+array(?:\s*\[\d*\])?$/i, '');
  const labels = type.array ? column.items?.allowedValues : column.allowedValues;
  if (
    labels !== null &&
    labels !== undefined &&
    (type.array || column.logicalType === 'string' || column.logicalType === null)
  ) {
    draft.before.add(`CREATE TYPE ${name} AS ENUM (${labels.map((label) => literal(String(label))).join(', ')});`);
    return true;
  }
  const base = type.array ? (mapping.element?.physicalType ?? 'text') : mapping.physicalType;
  const domain = parsePgType(base).known ? base : 'text';
  draft.before.add(`CREATE DOMAIN ${name} AS ${domain};`);
  draft.lossy.push({
    subject,
    message: `what the type ${name} is does not stand in the contract: made a domain over ${domain}`,
  });
  return false;
}
const EXTENSIONS: Readonly<Record<string, string>> = {
  citext: 'citext',
  hstore: 'hstore',
  ltree: 'ltree',
  lquery: 'ltree',
  cube: 'cube',
  geometry: 'postgis',
  geography: 'postgis',
  vector: 'vector',
};

function isUniqueRule(rule: TableContract['rules'][number]): rule is LibraryRule {
  return (
    rule.kind === 'library' &&
    rule.metric === 'duplicateValues' &&
    rule.operator.text === '0' &&
    rule.operator.name === 'mustBe' &&
    rule.properties !== null &&
    rule.properties.length > 0
  );
}

/** `infer` makes such a rule of a CHECK that is no option of one column: back it goes. */
function isCheckRule(rule: TableContract['rules'][number]): rule is SqlRule {
  return rule.kind === 'sql' && rule.operator.name === 'mustBe' && rule.operator.text === '0' && checkOf(rule) !== null;
}

function checkOf(rule: SqlRule): string | null {
  const expression = /^\s*SELECT\s+count\(\*\)\s+FROM\s+\{object\}\s+WHERE\s+NOT\s*\((.*)\)\s*$/is.exec(
    rule.query,
  )?.[1];
  // A CHECK sees one row: a subquery, or another table, has no place in it.
  return expression === undefined || /\bselect\b|[{;]/i.test(expression) || !isBalanced(expression) ? null : expression;
}

/** `(a) OR (b)` in `NOT (…)` is one pair of parentheses only if they match on the way. */
function isBalanced(text: string): boolean {
  let depth = 0;
  let quote = '';
  for (const char of text) {
    if (quote !== '') {
      if (char === quote) quote = '';
    } else if (char === "'" || char === '"') quote = char;
    else if (char === '(') depth++;
    else if (char === ')' && --depth < 0) return false;
  }
  return depth === 0 && quote === '';
}

function sortedNames(names: readonly string[]): string {
  return JSON.stringify([...names].toSorted());
}

function nameOf(contract: Contract, table: TableContract): readonly [string, string] {
  const dot = table.physicalName.indexOf('.');
  if (dot > 0) return [table.physicalName.slice(0, dot), table.physicalName.slice(dot + 1)];
  const schema = contract.servers.find((server) => server.type.startsWith('postgres'))?.settings.get('schema');
  return [typeof schema === 'string' ? schema : 'public', table.physicalName];
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
