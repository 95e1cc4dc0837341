/**
 * Everything that a contract can have wrong: YAML, the standard's closed shape, and what no shape can say (duplicate columns,
 * crossed bounds, an SLA on a column that does not exist, a rule that cannot run). Each with file:line:column.
 */
import { compileTable } from './compile.ts';
import { customEntries, customValueProblem, VOCABULARY } from './custom-properties.ts';
import type { CustomOwner } from './custom-properties.ts';
import { hasErrors, sortFindings } from './finding.ts';
import { isReservedName, lakeColumnName, lakeNameClashes } from './lake-name.ts';
import { lintColumn } from './lint-column.ts';
import type { Report } from './lint-report.ts';
import { lintRule } from './lint-rule.ts';
import { lintSla } from './lint-sla.ts';
import type { Contract, TableContract } from './model.ts';
import { didYouMean, nearest } from './nearest.ts';
import { readDraft, subjectOf } from './parse.ts';
import type { ParseResult } from './parse.ts';
import { nodeAt } from './yaml-tree.ts';
import type { TreeNode, TreePath } from './yaml-tree.ts';

export function lintContract(text: string, file: string): ParseResult {
  const draft = readDraft(text, file);
  const { contract, root } = draft;
  const findings = [...draft.findings];
  // A file without columns to speak of has said enough: one cause, one finding.
  if (contract !== null && root !== null) {
    const report: Report = (path, code, message, more = {}) => {
      if (draft.faults.some((fault) => sameCause(fault, path))) return;
      const at = contract.source.locate(path);
      findings.push({
        level: more.level ?? 'error',
        code,
        message,
        file,
        ...at,
        subject: subjectOf(root, path),
        hint: more.hint ?? null,
      });
    };
    lintRoot(contract, root, report);
    for (const table of contract.tables) lintTable(contract, table, root, report);
    for (const sla of contract.sla) lintSla(sla, contract, report);
    if (!hasErrors(findings))
      findings.push(...contract.tables.flatMap((table) => compileTable(contract, table, null, {}).findings));
  }
  const sorted = sortFindings(findings);
  return { contract: hasErrors(sorted) ? null : contract, findings: sorted };
}

/** One cause, one finding: what follows from a fault of shape in the same element is not reported again. */
function sameCause(fault: TreePath, path: TreePath): boolean {
  const shared = Math.min(fault.length, path.length);
  if (shared === 0 || (shared === 1 && fault.length !== path.length)) return false;
  for (let i = 0; i < shared; i++) if (fault[i] !== path[i]) return false;
  return true;
}

const VERSION = /^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$/;

function lintRoot(contract: Contract, root: TreeNode, report: Report): void {
  if (contract.version !== '' && !VERSION.test(contract.version))
    report(['version'], 'VERSION_FORMAT', `'${contract.version}' is no semantic version`, {
      hint: 'write major.minor.patch, such as 1.2.0',
    });
  duplicates(contract.servers, (server) => server.server).forEach((server) =>
    report(server.path, 'DUPLICATE_NAME', `a server named '${server.server}' stands above already`),
  );
  duplicates(contract.tables, (table) => table.physicalName).forEach((table) =>
    report(table.path, 'DUPLICATE_NAME', `a table named '${table.physicalName}' stands above already`),
  );
  lintCustom(root, [], 'contract', report);
  for (const server of contract.servers) lintCustom(root, server.path, 'server', report);
}

function lintTable(contract: Contract, table: TableContract, root: TreeNode, report: Report): void {
  const { path, columns } = table;
  if (columns.length === 0)
    report(path, 'NO_COLUMNS', `table ${table.name} has no columns`, { hint: "list them under 'properties'" });
  for (const column of duplicates(columns, (candidate) => candidate.name))
    report([...column.path, 'name'], 'DUPLICATE_COLUMN', `column '${column.name}' stands above already`);
  for (const column of columns)
    if (isReservedName(column.name))
      report(
        [...column.path, 'name'],
        'NAME_RESERVED',
        `the table in the lake has a column '${column.name}' of its own`,
        {
          hint: 'rename it at the source, or leave it out of the publication',
        },
      );
  const distinct = [...new Set(columns.map((column) => column.name))];
  for (const [first, second] of lakeNameClashes(distinct)) {
    const column = columns.find((candidate) => candidate.name === second);
    const name = lakeColumnName(second);
    if (column !== undefined)
      report([...column.path, 'name'], 'NAME_CLASH', `'${first}' and '${second}' are one name in the lake (${name})`, {
        hint: 'Delta names differ by more than case: rename one at the source, or leave it out of the publication',
      });
  }
  lintKey(table, root, report);
  lintIds(contract, table, report);
  lintCustom(root, path, 'table', report);
  if (table.columns.some((column) => column.onViolation === 'drop') || table.onViolation === 'drop')
    requireAllowDrop(table, path, report);
  for (const column of columns) {
    lintCustom(root, column.path, 'column', report);
    lintColumn(column, report);
  }
  for (const rule of table.rules) {
    lintCustom(root, rule.path, 'rule', report, rule.kind === 'custom');
    if (rule.onViolation === 'drop') requireAllowDrop(table, rule.path, report);
    lintRule(rule, table, report);
  }
  for (const relationship of [...table.relationships, ...columns.flatMap((column) => column.relationships)])
    lintReference(contract, relationship.path, relationship.from, relationship.to, report);
}

function requireAllowDrop(table: TableContract, path: TreePath, report: Report): void {
  if (!table.allowDrop)
    report(path, 'DROP_NOT_ALLOWED', 'the action drop loses events', {
      hint: "set the table's customProperty allowDrop: true to say that this is meant",
    });
}

/** Key and partition positions: 1, 2, 3 … each once. */
function lintKey(table: TableContract, root: TreeNode, report: Report): void {
  for (const [flag, positionKey, position] of [
    ['primaryKey', 'primaryKeyPosition', 'keyPosition'],
    ['partitioned', 'partitionKeyPosition', 'partitionPosition'],
  ] as const) {
    const members = table.columns.filter((column) => column[position] > 0);
    for (const column of duplicates(members, (candidate) => String(candidate[position])))
      report([...column.path, positionKey], 'KEY_POSITION', `two columns have ${positionKey} ${column[position]}`, {
        hint: 'number the key columns 1, 2, 3 …',
      });
    const numbers = members.map((column) => column[position]).toSorted((a, b) => a - b);
    const last = members.at(-1);
    if (
      last !== undefined &&
      new Set(numbers).size === numbers.length &&
      numbers.some((number, index) => number !== index + 1)
    )
      report([...last.path, positionKey], 'KEY_POSITION', `${positionKey} has a gap: ${numbers.join(', ')}`, {
        hint: 'number the key columns 1, 2, 3 …',
      });
    for (const column of table.columns) {
      const node = nodeAt(root, [...column.path, positionKey]);
      const given = node?.kind === 'scalar' && typeof node.value === 'number' && node.value !== -1 ? node.value : null;
      if (given !== null && column[position] === 0)
        report([...column.path, positionKey], 'KEY_POSITION', `${positionKey} without ${flag}: true`);
      else if (given !== null && given < 1)
        report([...column.path, positionKey], 'KEY_POSITION', `${positionKey} counts from 1, found ${given}`);
    }
  }
}

function lintIds(contract: Contract, table: TableContract, report: Report): void {
  const named = [...table.columns, ...contract.tables.filter((other) => other === table)].filter(
    (element) => element.id !== null,
  );
  for (const element of duplicates(named, (candidate) => candidate.id ?? ''))
    report([...element.path, 'id'], 'DUPLICATE_ID', `id '${element.id}' stands above already`, {
      hint: 'ids tell a rename from a drop and an add: each needs its own',
    });
  for (const rule of duplicates(table.rules, (candidate) => candidate.id))
    report(
      rule.givenId === null ? rule.path : [...rule.path, 'id'],
      'DUPLICATE_ID',
      `a rule with id '${rule.id}' stands above already`,
      { hint: 'reports and quarantine rows name rules by id' },
    );
}

/** Our words must be right; a word that is nearly ours most likely means ours; other tools' words are not our business. */
function lintCustom(root: TreeNode, path: TreePath, owner: CustomOwner, report: Report, strict = false): void {
  const vocabulary = VOCABULARY[owner];
  const names = Object.keys(vocabulary);
  const below = [...path, 'customProperties'];
  const seen = new Set<string>();
  for (const entry of customEntries(nodeAt(root, below) ?? undefined, below)) {
    const { property, value } = entry;
    if (seen.has(property)) report(entry.path, 'DUPLICATE_NAME', `custom property '${property}' stands above already`);
    seen.add(property);
    const allowed = Object.hasOwn(vocabulary, property) ? vocabulary[property] : undefined;
    if (allowed !== undefined) {
      const problem = customValueProblem(allowed, value);
      if (problem !== null)
        report([...entry.path, 'value'], 'CUSTOM_VALUE', `${property} must be ${problem}`, {
          hint: typeof value === 'string' && allowed.kind === 'words' ? didYouMean(value, allowed.words) : null,
        });
      continue;
    }
    const close = nearest(property, names);
    if (strict)
      report([...entry.path, 'property'], 'CUSTOM_UNKNOWN', `our rules have no custom property '${property}'`, {
        hint: didYouMean(property, names),
      });
    else if (close !== null)
      report([...entry.path, 'property'], 'CUSTOM_UNKNOWN', `'${property}' is not read by Sluice`, {
        level: 'warning',
        hint: `did you mean '${close}'?`,
      });
  }
}

/** A reference into this contract must exist; one to another contract's table is taken on trust. */
function lintReference(
  contract: Contract,
  path: TreePath,
  from: readonly string[],
  to: readonly string[],
  report: Report,
): void {
  for (const [end, references] of [
    ['from', from],
    ['to', to],
  ] as const)
    for (const reference of references) {
      const [tableName = '', columnName = ''] = reference.split('.');
      const table = reference.includes('/')
        ? undefined
        : contract.tables.find((candidate) => candidate.name === tableName);
      if (table === undefined || table.columns.some((column) => column.name === columnName)) continue;
      report([...path, end], 'REFERENCE', `table ${tableName} has no column '${columnName}'`, {
        hint: didYouMean(
          columnName,
          table.columns.map((column) => column.name),
        ),
      });
    }
}

function duplicates<T>(items: readonly T[], nameOf: (item: T) => string): T[] {
  const seen = new Set<string>();
  return items.filter((item) => {
    const name = nameOf(item);
    if (name === '') return false;
    const again = seen.has(name);
    seen.add(name);
    return again;
  });
}
