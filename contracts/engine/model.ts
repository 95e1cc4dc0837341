/**
 * A contract as the rest of the engine sees it: typed, defaults resolved, our vocabulary of custom properties read. Every
 * element has its `path` in the text, and `contract.source.locate(path)` gives file positions.
 */
import type { TextPosition } from './finding.ts';
import type { Action } from './gate.ts';
import type { MetricName, OperatorName } from './standard/quality.ts';
import type { ApiVersion } from './standard/elements.ts';
import type { ScalarValue, TreePath } from './yaml-tree.ts';

export interface ContractSource {
  readonly file: string;
  readonly text: string;
  /** SHA-256 of the text, hex. */
  readonly sha256: string;
  /** Of the key, or of the list's entry. */
  locate(path: TreePath): TextPosition;
  /** Of a character in the scalar value at the path, counted from 0. */
  locateInValue(path: TreePath, offset: number): TextPosition;
}

export interface Contract {
  readonly source: ContractSource;
  readonly apiVersion: ApiVersion;
  readonly id: string;
  readonly version: string;
  readonly status: string;
  readonly name: string | null;
  readonly domain: string | null;
  readonly owner: string | null;
  readonly tags: readonly string[];
  readonly purpose: string | null;
  readonly limitations: string | null;
  readonly usage: string | null;
  readonly servers: readonly Server[];
  readonly tables: readonly TableContract[];
  readonly sla: readonly SlaProperty[];
  readonly custom: CustomValues;
  /** Breaks that were approved: customProperty `breaking`. */
  readonly breaking: readonly BreakingNote[];
}

export type CustomValues = ReadonlyMap<string, unknown>;

export interface Server {
  readonly path: TreePath;
  readonly server: string;
  readonly type: string;
  /** All other scalar keys as written: host, location, format … */
  readonly settings: ReadonlyMap<string, ScalarValue>;
  readonly custom: CustomValues;
}

export interface BreakingNote {
  readonly code: string;
  readonly subject: string | null;
  readonly reason: string;
  readonly approver: string;
  /** `YYYY-MM-DD`, or null: no end. */
  readonly until: string | null;
}

export const COMPATIBILITY_MODES = [
  'NONE',
  'BACKWARD',
  'FORWARD',
  'FULL',
  'BACKWARD_TRANSITIVE',
  'FORWARD_TRANSITIVE',
  'FULL_TRANSITIVE',
] as const;
export type CompatibilityMode = (typeof COMPATIBILITY_MODES)[number];
export const UNKNOWN_COLUMN_POLICIES = ['evolve', 'ignore', 'quarantine', 'fail'] as const;
export type UnknownColumns = (typeof UNKNOWN_COLUMN_POLICIES)[number];
export const UNREPRESENTABLE_POLICIES = ['quarantine', 'null', 'fail'] as const;
export type OnUnrepresentable = (typeof UNREPRESENTABLE_POLICIES)[number];
export const PII_ACTIONS = ['hash', 'mask', 'null', 'drop'] as const;
export type PiiAction = (typeof PII_ACTIONS)[number];
export const PII_STAGES = ['before-log', 'before-lake'] as const;
export type PiiStage = (typeof PII_STAGES)[number];
export const ACTIONS = ['warn', 'quarantine', 'drop', 'fail'] as const satisfies readonly Action[];
export const RULE_SCOPES = ['row', 'batch', 'table'] as const;
export type RuleScope = (typeof RULE_SCOPES)[number];
export const REPLICA_IDENTITIES = ['default', 'full', 'index', 'nothing'] as const;
export type ReplicaIdentity = (typeof REPLICA_IDENTITIES)[number];

export interface TableContract {
  readonly path: TreePath;
  readonly id: string | null;
  readonly name: string;
  /** `physicalName`, or `name`. */
  readonly physicalName: string;
  readonly description: string | null;
  readonly tags: readonly string[];
  readonly columns: readonly Column[];
  /** The table's own rules, then each column's, in the order of the text. */
  readonly rules: readonly Rule[];
  readonly relationships: readonly Relationship[];
  /** Null where the contract does not say. */
  readonly compatibility: CompatibilityMode | null;
  readonly unknownColumns: UnknownColumns | null;
  readonly maxQuarantineRatio: number | null;
  readonly onViolation: Action | null;
  readonly onUnrepresentable: OnUnrepresentable | null;
  readonly allowDrop: boolean;
  readonly replicaIdentity: ReplicaIdentity | null;
  readonly custom: CustomValues;
}

export type LogicalType =
  | 'string'
  | 'date'
  | 'timestamp'
  | 'time'
  | 'number'
  | 'integer'
  | 'object'
  | 'array'
  | 'boolean'
  | 'map'
  | 'vector';

/** A number from the contract as exact decimal text, such as `9007199254740993` or `0.01`. */
export type DecimalText = string;

/** `logicalTypeOptions`; what is not written is absent. Bounds of numbers are decimal text, of dates and times as written. */
export interface ColumnOptions {
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: DecimalText;
  readonly maximum?: DecimalText;
  readonly exclusiveMinimum?: DecimalText;
  readonly exclusiveMaximum?: DecimalText;
  readonly multipleOf?: DecimalText;
  readonly timezone?: boolean;
  readonly defaultTimezone?: string;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly requiredProperties?: readonly string[];
  readonly dimensions?: number;
}

export interface PhysicalTypes {
  readonly postgres?: string;
  readonly kafka?: string;
  readonly delta?: string;
}

export interface Column {
  readonly path: TreePath;
  readonly id: string | null;
  /** Empty for the items of an array and the sides of a map. */
  readonly name: string;
  readonly physicalName: string | null;
  readonly logicalType: LogicalType | null;
  readonly options: ColumnOptions;
  readonly physicalType: string | null;
  readonly physicalTypes: PhysicalTypes;
  readonly required: boolean;
  readonly unique: boolean;
  /** Position in the primary key, from 1; 0 = not part of it. */
  readonly keyPosition: number;
  /** Position in the partition key, from 1; 0 = not part of it. */
  readonly partitionPosition: number;
  readonly description: string | null;
  readonly classification: string | null;
  readonly tags: readonly string[];
  readonly encryptedName: string | null;
  /** The closed list of 3.2 `enum`, else of a row-enforced `invalidValues`, else null. */
  readonly allowedValues: readonly ScalarValue[] | null;
  /** New labels are no violation. */
  readonly enumOpen: boolean;
  /** What replay writes where the column is missing; undefined = no default. */
  readonly default: ScalarValue | undefined;
  readonly pii: string | null;
  readonly piiAction: PiiAction | null;
  readonly piiStage: PiiStage;
  readonly onViolation: Action | null;
  readonly onUnrepresentable: OnUnrepresentable | null;
  readonly deprecated: boolean;
  readonly items: Column | null;
  readonly properties: readonly Column[];
  readonly mapKey: Column | null;
  readonly mapValue: Column | null;
  readonly relationships: readonly Relationship[];
  /** Rules on an element of an array or a document; a table's columns have theirs in `TableContract.rules`. */
  readonly nestedRules: readonly Rule[];
  readonly custom: CustomValues;
}

export interface Relationship {
  readonly path: TreePath;
  readonly from: readonly string[];
  readonly to: readonly string[];
}

export interface Operator {
  readonly name: OperatorName;
  /** One value, or two for Between. Numbers as decimal text in `text`. */
  readonly value: unknown;
  readonly text: string;
}

interface RuleBase {
  readonly path: TreePath;
  /** The rule's id; derived from kind, column and place when the contract gives none. */
  readonly id: string;
  readonly givenId: string | null;
  readonly name: string | null;
  readonly description: string | null;
  /** Null = table rule. */
  readonly column: string | null;
  /** As written; `error` when absent. */
  readonly severity: string;
  readonly dimension: string | null;
  /** Where the contract names an action for this rule. */
  readonly onViolation: Action | null;
  readonly scope: RuleScope | null;
  readonly schedule: string | null;
}
export interface LibraryRule extends RuleBase {
  readonly kind: 'library';
  readonly metric: MetricName;
  readonly validValues: readonly ScalarValue[] | null;
  readonly pattern: string | null;
  readonly missingValues: readonly ScalarValue[] | null;
  /** Columns of a table-level duplicateValues. */
  readonly properties: readonly string[] | null;
  readonly operator: Operator;
  readonly unit: 'rows' | 'percent';
}
export interface SqlRule extends RuleBase {
  readonly kind: 'sql';
  readonly query: string;
  readonly operator: Operator;
  readonly unit: 'rows' | 'percent';
}
export interface CustomRule extends RuleBase {
  readonly kind: 'custom';
  readonly engine: string;
  /** The text; for an object form its JSON. */
  readonly implementation: string;
}
export interface TextRule extends RuleBase {
  readonly kind: 'text';
}
export type Rule = LibraryRule | SqlRule | CustomRule | TextRule;

export interface SlaProperty {
  readonly path: TreePath;
  readonly id: string | null;
  readonly property: string;
  readonly value: ScalarValue;
  readonly valueExt: ScalarValue;
  readonly unit: string | null;
  /** `orders.created_at` */
  readonly element: string | null;
  readonly driver: string | null;
}

/** The key columns of a table, in key order. */
export function keyColumns(table: TableContract): readonly Column[] {
  return table.columns.filter((column) => column.keyPosition > 0).toSorted((a, b) => a.keyPosition - b.keyPosition);
}

/** True when values of this column must not be shown: a pii action or tag, or a classification above internal. */
export function isClassified(column: Column): boolean {
  if (column.pii !== null || column.piiAction !== null) return true;
  if (column.tags.some((tag) => tag === 'pii' || tag.startsWith('pii:'))) return true;
  const word = column.classification?.toLowerCase() ?? 'public';
  return !UNCLASSIFIED.has(word);
}
/** It, or anything that stands inside it: an e-mail address in a document is one, too. */
export function holdsClassified(column: Column): boolean {
  return (
    isClassified(column) ||
    [...column.properties, column.items, column.mapKey, column.mapValue].some(
      (inner) => inner !== null && holdsClassified(inner),
    )
  );
}
const UNCLASSIFIED: ReadonlySet<string> = new Set(['public', 'internal', 'open', 'none', 'unclassified', 'general']);
