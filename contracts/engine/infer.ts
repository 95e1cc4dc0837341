/**
 * A contract for a live table: what the catalog knows (key, NOT NULL, UNIQUE, CHECK, enum labels, lengths, types) and nothing
 * it does not. The same catalog always gives the same text. What could not be mapped without a choice is listed, never guessed.
 */
import type { CatalogColumn, CatalogForeignKey, CatalogTable } from './catalog.ts';
import { checkRules } from './infer-checks.ts';
import type { Contract } from './model.ts';
import { ContractError, parseContract } from './parse.ts';
import { parsePgType } from './pg-type.ts';
import { mapColumn } from './type-table.ts';
import type { TypeMapping } from './type-table.ts';
import { exactNumber, writeYaml } from './write.ts';
import type { PlainValue } from './write.ts';

export type PlainMap = { readonly [key: string]: PlainValue | undefined };

export interface InferOptions {
  /** Pipeline name: the contract's id is `<name>.<schema>.<table>`. */
  readonly name: string;
  /** Default `1.0.0`. */
  readonly version?: string;
  /** Default `active`. */
  readonly status?: string;
  /** ODCS server entries, as they shall stand in the file. */
  readonly servers?: readonly PlainMap[];
  /** Default `evolve`. */
  readonly unknownColumns?: 'evolve' | 'ignore' | 'quarantine' | 'fail';
  /** File name for positions in messages; default `<schema>.<table>.odcs.yaml`. */
  readonly file?: string;
}

export interface InferNote {
  readonly code: 'TYPE_UNKNOWN' | 'CHOICE_NEEDED' | 'CHECK_AS_SQL' | 'NO_KEY' | 'NOT_REPRESENTABLE';
  readonly column: string | null;
  readonly message: string;
}

export interface InferResult {
  readonly text: string;
  readonly contract: Contract;
  /** What a person should look at; with `--strict` any of TYPE_UNKNOWN, CHOICE_NEEDED, NOT_REPRESENTABLE fails. */
  readonly notes: readonly InferNote[];
}

export function inferContract(table: CatalogTable, options: InferOptions): InferResult {
  const notes: InferNote[] = [];
  const text = writeYaml(
    contractValue(
      options,
      [tableValue(table, options, notes)],
      `${options.name}.${table.schema}.${table.table}`,
      table.table,
    ),
  );
  const file = options.file ?? contractFileName(table);
  const { contract, findings } = parseContract(text, file);
  if (contract === null) throw new ContractError(findings);
  return { text, contract, notes };
}

/** `public.orders.odcs.yaml`; a slash, which no file name can hold, becomes `_`. */
export function contractFileName(table: { readonly schema: string; readonly table: string }): string {
  return `${table.schema}.${table.table}.odcs.yaml`.replaceAll('/', '_');
}

export function contractValue(options: InferOptions, tables: readonly PlainMap[], id: string, name: string): PlainMap {
  return {
    apiVersion: 'v3.1.0',
    kind: 'DataContract',
    id,
    version: options.version ?? '1.0.0',
    status: options.status ?? 'active',
    name,
    servers: options.servers,
    schema: tables,
  };
}

function tableValue(table: CatalogTable, options: InferOptions, notes: InferNote[]): PlainMap {
  const checks = checkRules(table.checks ?? [], table.columns);
  for (const rule of checks.tableRules)
    notes.push({
      code: 'CHECK_AS_SQL',
      column: null,
      message: `CHECK ${rule.name} became an SQL rule: it is tested on the table, not on each event`,
    });
  if (!table.columns.some((column) => column.keyPosition > 0))
    notes.push({ code: 'NO_KEY', column: null, message: 'the table has no key: every column of a row identifies it' });
  const ids = new Set<string>();
  const uniques = table.uniques ?? [];
  const composite = uniques.filter((columns) => columns.length > 1);
  return {
    id: freshId(table.table, 'table', ids),
    name: table.table,
    physicalName: `${table.schema}.${table.table}`,
    physicalType: 'table',
    logicalType: 'object',
    description: table.comment ?? undefined,
    customProperties: [
      { property: 'unknownColumns', value: options.unknownColumns ?? 'evolve' },
      ...(table.replicaIdentity === undefined ? [] : [{ property: 'replicaIdentity', value: table.replicaIdentity }]),
    ],
    quality: [
      ...composite.map((columns) => ({
        id: freshId(`${columns.join('_')}_unique`, 'unique', ids),
        metric: 'duplicateValues',
        arguments: { properties: columns },
        mustBe: 0,
        severity: 'error',
      })),
      ...checks.tableRules.map((rule) => ({
        id: freshId(rule.name, 'check', ids),
        type: 'sql',
        query: rule.query,
        mustBe: 0,
        severity: 'error',
      })),
    ],
    relationships: (table.foreignKeys ?? []).flatMap((key) => relationship(table.table, key, notes)),
    properties: table.columns.map((column, index) =>
      columnValue(column, {
        id: freshId(column.name, `c${index + 1}`, ids),
        unique: uniques.some((columns) => columns.length === 1 && columns[0] === column.name),
        bounds: checks.bounds.get(column.name) ?? {},
        values: column.enumLabels ?? checks.values.get(column.name) ?? null,
        ids,
        notes,
      }),
    ),
  };
}

interface ColumnContext {
  readonly id: string;
  readonly unique: boolean;
  /** From CHECKs: minimum, maximum … as decimal text. */
  readonly bounds: Readonly<Record<string, string>>;
  readonly values: readonly string[] | null;
  readonly ids: Set<string>;
  readonly notes: InferNote[];
}

function columnValue(column: CatalogColumn, context: ColumnContext): PlainMap {
  const mapping = mapColumn(column);
  noteType(column, mapping, context.notes);
  const values = column.kind === 'enum' || column.kind === 'base' || column.kind === 'domain' ? context.values : null;
  const isKey = column.keyPosition > 0;
  const fallback = constantDefault(column.defaultText ?? null);
  return {
    id: context.id,
    name: column.name,
    description: column.comment ?? undefined,
    logicalType: mapping.logicalType,
    logicalTypeOptions: { ...optionValues(mapping), ...boundValues(mapping, context.bounds) },
    physicalType: mapping.physicalType,
    primaryKey: isKey ? true : undefined,
    primaryKeyPosition: isKey ? column.keyPosition : undefined,
    required: column.notNull ? true : undefined,
    unique: context.unique ? true : undefined,
    items: mapping.element === null ? undefined : itemValue(mapping.element),
    customProperties: [
      ...(mapping.wire === 'decimal' && mapping.delta === 'string'
        ? [{ property: 'physicalTypes', value: { delta: 'string' } }]
        : []),
      ...(fallback === undefined ? [] : [{ property: 'default', value: fallback }]),
    ],
    quality:
      values === null
        ? []
        : [
            {
              id: freshId(`${context.id}_values`, 'values', context.ids),
              metric: 'invalidValues',
              arguments: { validValues: values },
              mustBe: 0,
              severity: 'error',
            },
          ],
  };
}

function itemValue(element: TypeMapping): PlainMap {
  return {
    logicalType: element.logicalType,
    logicalTypeOptions: optionValues(element),
    physicalType: element.physicalType,
  };
}

function optionValues(mapping: TypeMapping): PlainMap {
  const { format, maxLength, timezone } = mapping.options;
  // The standard has u32 among its integer formats; a char(n) is compared without its padding, so only varchar's length is a rule.
  return { format, maxLength, timezone };
}

const BOUND_ORDER =
  'minimum exclusiveMinimum maximum exclusiveMaximum multipleOf minLength maxLength minItems maxItems'.split(' ');

/** Only those that the standard has for the column's type. */
function boundValues(mapping: TypeMapping, bounds: Readonly<Record<string, string>>): PlainMap {
  const numeric = mapping.logicalType === 'integer' || mapping.logicalType === 'number';
  return Object.fromEntries(
    BOUND_ORDER.flatMap((name) => {
      const text = bounds[name];
      if (text === undefined) return [];
      const of = name.endsWith('Length') ? 'string' : name.endsWith('Items') ? 'array' : null;
      return (of === null ? numeric : mapping.logicalType === of) ? [[name, exactNumber(text)]] : [];
    }),
  );
}

function noteType(column: CatalogColumn, mapping: TypeMapping, notes: InferNote[]): void {
  if (!mapping.known)
    notes.push({
      code: 'TYPE_UNKNOWN',
      column: column.name,
      message: `${column.pgType} is not in the type table: its text passes unchanged as string`,
    });
  if (mapping.wire !== 'decimal' || mapping.delta !== 'string') return;
  const { args } = parsePgType(column.baseType ?? column.pgType);
  notes.push({
    code: 'CHOICE_NEEDED',
    column: column.name,
    message:
      args.length === 0
        ? `${column.pgType} has no precision: kept as string; set physicalTypes.delta to decimal(p,s) if all values fit`
        : `${column.pgType} has more digits than Delta's 38: kept as string`,
  });
}

function relationship(table: string, key: CatalogForeignKey, notes: InferNote[]): PlainMap[] {
  const names = [table, key.table, ...key.columns, ...key.referenced];
  // The standard's references are plain words joined by a dot; other names cannot be written.
  if (!names.every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name))) {
    const message = `the foreign key to ${key.table} was left out: the standard's references have no place for such a name`;
    notes.push({ code: 'NOT_REPRESENTABLE', column: key.columns[0] ?? null, message });
    return [];
  }
  const from = key.columns.map((column) => `${table}.${column}`);
  const to = key.referenced.map((column) => `${key.table}.${column}`);
  const [fromOne] = from;
  const [toOne] = to;
  if (fromOne === undefined || toOne === undefined || from.length !== to.length) return [];
  return [from.length === 1 ? { type: 'foreignKey', from: fromOne, to: toOne } : { type: 'foreignKey', from, to }];
}

/** A default that is a constant: `'new'::order_status` → new, `0` → 0. now(), nextval() and the like are no value. */
export function constantDefault(expression: string | null): string | number | boolean | undefined {
  if (expression === null) return undefined;
  const bare = expression.trim().replace(/::[\w\s."[\](),]+$/, '');
  if (/^'(?:[^']|'')*'$/.test(bare)) return bare.slice(1, -1).replaceAll("''", "'");
  if (/^-?\d{1,15}$/.test(bare)) return Number(bare);
  if (/^\(?-?\d+(?:\.\d+)?\)?$/.test(bare)) return bare.replaceAll(/[()]/g, '');
  if (bare === 'true' || bare === 'false') return bare === 'true';
  return undefined;
}

/** A stable id (letters, digits, - and _) made from a name, not yet taken; takes it. */
export function freshId(name: string, fallback: string, taken: Set<string>): string {
  const base = /^[A-Za-z0-9_-]+$/.test(name) ? name : fallback;
  let id = base;
  for (let n = 2; taken.has(id); n++) id = `${base}_${n}`;
  taken.add(id);
  return id;
}
