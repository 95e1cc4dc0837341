/**
 * What a parsed SELECT needs of its tables: which columns it can touch, and which rows it cannot. Both err on the side of more:
 * a column is needed if its name stands anywhere in the query, and only plain comparisons of a column with a constant count.
 */
import { decimalOf } from '../parquet/stored-fields.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import { dateOf, microsOf } from './partition-column.ts';
import type { Comparison, Condition } from './skip-files.ts';

/** A node of DuckDB's serialized statement. */
type Node = Readonly<Record<string, unknown>>;

/** `column <is> constant`, as the query has it. */
export interface ColumnTest {
  readonly path: readonly string[];
  readonly is: Comparison['is'] | 'null' | 'not null';
  readonly constant: Constant | null;
}

interface Constant {
  /** DuckDB's type: `INTEGER`, `VARCHAR`, `DATE`, … */
  readonly type: string;
  readonly scale: number;
  readonly value: unknown;
}

const COMPARISONS: Readonly<Record<string, Comparison['is']>> = {
  COMPARE_EQUAL: '=',
  COMPARE_LESSTHAN: '<',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHAN: '>',
  COMPARE_GREATERTHANOREQUALTO: '>=',
};
const MIRRORED: Readonly<Record<Comparison['is'], Comparison['is']>> = {
  '=': '=',
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
};

/** Lower-case words among which every column's name is that the query can touch; null: it may touch all columns. */
export function mentionedNames(statement: unknown): ReadonlySet<string> | null {
  const words = new Set<string>();
  const rows = new Set<string>();
  const references = new Set<string>();
  let all = false;
  walk(statement, (node) => {
    if (node['type'] === 'STAR' || node['type'] === 'POSITIONAL_REFERENCE' || node['ref_type'] === 'NATURAL')
      all = true;
    if (node['type'] === 'BASE_TABLE') {
      if (isRenamed(node)) all = true;
      for (const name of [node['table_name'], node['alias']])
        if (typeof name === 'string') rows.add(name.toLowerCase());
    }
    if (node['type'] === 'COLUMN_REF' && Array.isArray(node['column_names'])) {
      const last: unknown = node['column_names'].at(-1);
      if (typeof last === 'string') references.add(last.toLowerCase());
    }
    for (const value of Object.values(node)) {
      if (typeof value === 'string') words.add(value.toLowerCase());
      else if (Array.isArray(value))
        for (const item of value) if (typeof item === 'string') words.add(item.toLowerCase());
    }
  });
  // A table's name where a column's could stand is its whole row.
  for (const name of references) if (rows.has(name)) all = true;
  return all ? null : words;
}

/** What holds of every row of `SCHEMA.TABLE` (lower case, as in the query) that the query can use; only for tables named once. */
export function testsByTable(statement: unknown): ReadonlyMap<string, readonly ColumnTest[]> {
  const named = new Map<string, number>();
  const tests = new Map<string, readonly ColumnTest[]>();
  walk(statement, (node) => {
    if (node['type'] === 'BASE_TABLE') named.set(tableKey(node), (named.get(tableKey(node)) ?? 0) + 1);
    const from = node['from_table'];
    if (node['type'] !== 'SELECT_NODE' || !isNode(from) || from['type'] !== 'BASE_TABLE' || isRenamed(from)) return;
    const names = [from['table_name'], from['alias']].map((name) =>
      typeof name === 'string' ? name.toLowerCase() : '',
    );
    tests.set(tableKey(from), conjuncts(node['where_clause'], names));
  });
  return new Map([...tests].filter(([table]) => named.get(table) === 1));
}

/** `t AS x(a, b)`: columns have other names by position, and a name may be another column's than the table's. */
function isRenamed(table: Node): boolean {
  return Array.isArray(table['column_name_alias']) && table['column_name_alias'].length > 0;
}

function tableKey(node: Node): string {
  return `${typeof node['schema_name'] === 'string' ? node['schema_name'] : ''}.${String(node['table_name'])}`.toLowerCase();
}

function conjuncts(clause: unknown, tableNames: readonly string[]): readonly ColumnTest[] {
  if (!isNode(clause)) return [];
  const children = Array.isArray(clause['children']) ? (clause['children'] as readonly unknown[]) : [];
  const type = String(clause['type']);
  if (type === 'CONJUNCTION_AND') return children.flatMap((child) => conjuncts(child, tableNames));
  if (type === 'OPERATOR_IS_NULL' || type === 'OPERATOR_IS_NOT_NULL') {
    const path = pathOf(children[0], tableNames);
    return path === null ? [] : [{ path, is: type === 'OPERATOR_IS_NULL' ? 'null' : 'not null', constant: null }];
  }
  if (type === 'COMPARE_BETWEEN')
    return [
      ...comparison(clause['input'], '>=', clause['lower'], tableNames),
      ...comparison(clause['input'], '<=', clause['upper'], tableNames),
    ];
  const is = COMPARISONS[type];
  if (is === undefined) return [];
  const plain = comparison(clause['left'], is, clause['right'], tableNames);
  return plain.length > 0 ? plain : comparison(clause['right'], MIRRORED[is], clause['left'], tableNames);
}

function comparison(
  column: unknown,
  is: Comparison['is'],
  other: unknown,
  tableNames: readonly string[],
): readonly ColumnTest[] {
  const path = pathOf(column, tableNames);
  const constant = constantOf(other);
  return path === null || constant === null ? [] : [{ path, is, constant }];
}

function pathOf(node: unknown, tableNames: readonly string[]): readonly string[] | null {
  if (!isNode(node) || node['type'] !== 'COLUMN_REF' || !Array.isArray(node['column_names'])) return null;
  const names = node['column_names'].map(String);
  // `t.a` may be column a of t, or field a of a column t: which, only the schema knows. One name is sure.
  if (names.length === 1) return names;
  return names.length === 2 && tableNames.includes(names[0]?.toLowerCase() ?? '') ? names.slice(1) : null;
}

function constantOf(node: unknown): Constant | null {
  if (!isNode(node)) return null;
  if (node['type'] === 'OPERATOR_CAST') {
    const inner = constantOf(node['child']);
    const to = isNode(node['cast_type']) ? String(node['cast_type']['id']) : '';
    return inner?.type === 'VARCHAR' && node['try_cast'] !== true ? { ...inner, type: to } : null;
  }
  if (node['type'] !== 'VALUE_CONSTANT' || !isNode(node['value']) || node['value']['is_null'] === true) return null;
  const { type, value } = node['value'] as { readonly type?: unknown; readonly value?: unknown };
  if (!isNode(type)) return null;
  const info = isNode(type['type_info']) ? type['type_info'] : {};
  return { type: String(type['id']), scale: typeof info['scale'] === 'number' ? info['scale'] : 0, value };
}

/** The tests in terms of the columns' types; those that cannot be put so are left out. */
export function conditionsOf(schema: StructType, tests: readonly ColumnTest[]): readonly Condition[] {
  return tests.flatMap(({ path, is, constant }): Condition[] => {
    const field = schema.fields.find(({ name }) => name.toLowerCase() === path[0]?.toLowerCase());
    if (field === undefined || path.length !== 1) return [];
    if (is === 'null' || is === 'not null') return [{ path: [field.name], is }];
    const value = constant === null ? null : valueFor(field.type, constant);
    return value === null ? [] : [{ path: [field.name], is, value }];
  });
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const INSTANT = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z?$/;
const INTEGERS: ReadonlySet<unknown> = new Set<DeltaType>(['byte', 'short', 'integer', 'long']);

function valueFor(type: DeltaType, { type: given, scale, value }: Constant): Comparison['value'] | null {
  if (typeof value === 'string') {
    if (given === 'VARCHAR' && type === 'string') return value;
    if (type === 'date' && (given === 'VARCHAR' || given === 'DATE') && DAY.test(value)) return BigInt(dateOf(value));
    if (type !== 'timestamp' && type !== 'timestamp_ntz') return null;
    if (DAY.test(value)) return microsOf(`${value} 00:00:00`);
    return given !== 'DATE' && INSTANT.test(value) ? microsOf(value.replace('T', ' ').replace('Z', '')) : null;
  }
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) return null;
  const isWhole = /^(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?$/.test(given);
  if (INTEGERS.has(type)) return isWhole ? BigInt(value) : null;
  const decimal = decimalOf(type);
  if (decimal === null || !(isWhole || given === 'DECIMAL') || scale > decimal.scale) return null;
  return BigInt(value) * 10n ** BigInt(decimal.scale - scale);
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function walk(value: unknown, see: (node: Node) => void): void {
  if (Array.isArray(value)) for (const item of value) walk(item, see);
  if (!isNode(value)) return;
  see(value);
  for (const member of Object.values(value)) walk(member, see);
}
