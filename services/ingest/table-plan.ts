/** A table as one contract version describes it: the gate, the lake's schema, and how cells go into columns. */
import type { CatalogColumn } from '../../contracts/engine/catalog.ts';
import type { Gate } from '../../contracts/engine/gate.ts';
import { isReservedName, lakeColumnName } from '../../contracts/engine/lake-name.ts';
import { lakeMapping, latePrivacyPlan, privacyPlan } from '../../contracts/engine/privacy.ts';
import type { Hasher, PrivacyPlan } from '../../contracts/engine/privacy.ts';
import { holdsClassified, keyColumns } from '../../contracts/engine/model.ts';
import type { OnUnrepresentable, TableContract, UnknownColumns } from '../../contracts/engine/model.ts';
import type { DeltaType, StructField, StructType } from '../../lakehouse/table/schema.ts';
import { createHash } from 'node:crypto';
import { OCCURRENCE, ROW_HASH } from '../log/bag-key.ts';
import type { TableShape } from '../log/event.ts';
import { StreamError } from '../stream/stream-error.ts';

/** Source commit time, on every table. `_sluice_epoch`, `_sluice_lsn` and `_sluice_ord` are the merge writer's. */
export const COMMITTED_AT = '_sluice_committed_at';

export interface PlanField {
  readonly lakeName: string;
  readonly sourceName: string;
  readonly type: DeltaType;
  readonly isKey: boolean;
  readonly onUnrepresentable: OnUnrepresentable;
  /** Values of this column are masked wherever they are shown. */
  readonly classified: boolean;
  /** Not a column of the source: the key of a table that has none (bag-fold.ts). */
  readonly made?: 'row-hash' | 'occurrence';
}

export interface TablePlan {
  readonly gate: Gate;
  readonly contract: { readonly id: string; readonly version: string; readonly hash: string; readonly text: string };
  /** Data columns in the contract's order. */
  readonly fields: readonly PlanField[];
  /** Lake schema: the data columns, then `_sluice_committed_at`. */
  readonly schema: StructType;
  readonly schemaHash: string;
  /** Lake names, in key order. */
  readonly keyColumns: readonly string[];
  /** Source names, in key order. */
  readonly keySources: readonly string[];
  readonly maxQuarantineRatio: number | null;
  /** The table has no key: equal rows are counted. */
  readonly bag: boolean;
  /** What becomes of personal values before the lake; null = nothing. */
  readonly privacy: PrivacyPlan | null;
  /** The same for what should not have come into the log, and stands there from before the contract said so. */
  readonly logPrivacy: PrivacyPlan | null;
  readonly unknownColumns: UnknownColumns;
  /** Source names of all columns in the contract, also of those that the lake does not get. */
  readonly contractColumns: readonly string[];
  /** Newest shape that the plan was made for; 0 = none. */
  readonly shapeVersion: number;
}

export interface TablePlanInput {
  readonly table: TableContract;
  readonly contract: TablePlan['contract'];
  readonly gate: Gate;
  readonly shape: TableShape | null;
  /** The table's schema in the lake; null when it does not exist yet. */
  readonly lake: StructType | null;
  /** Hashes personal values; null = no key is configured. */
  readonly hasher: Hasher | null;
}

/** @throws StreamError SCHEMA_CONFLICT without key columns, or with names that the lake cannot keep apart. */
export function buildTablePlan({ table, contract, gate, shape, lake, hasher }: TablePlanInput): TablePlan {
  const live = new Map<string, CatalogColumn>(shape?.columns.map((column) => [column.name, column]) ?? []);
  const standing = new Map(lake?.fields.map((field) => [field.name.toLowerCase(), field.type]) ?? []);
  const bag = isBag(table, shape);
  // First, so that a column that comes later is always the last.
  const fields: PlanField[] = bag ? [...BAG_FIELDS] : [];
  for (const column of table.columns) {
    const sourceName = column.name;
    const mapping = lakeMapping(column, live.get(sourceName) ?? null);
    // Dropped before the lake: the column exists neither in the table nor in its history.
    if (mapping === null) continue;
    fields.push({
      lakeName: lakeColumnName(sourceName),
      sourceName,
      type: storedType(table.physicalName, sourceName, {
        wanted: mapping.delta,
        standing: standing.get(lakeColumnName(sourceName).toLowerCase()),
      }),
      isKey: column.keyPosition > 0,
      onUnrepresentable: column.onUnrepresentable ?? table.onUnrepresentable ?? 'quarantine',
      classified: holdsClassified(column),
    });
  }
  const keySources = bag ? BAG_FIELDS.map(({ sourceName }) => sourceName) : keySourcesOf(table, shape);
  if (keySources.length === 0)
    throw new StreamError(
      'SCHEMA_CONFLICT',
      `table ${table.physicalName} has no key columns in its contract`,
      'mark the key columns with primaryKey and primaryKeyPosition, or leave the table out',
    );
  refuseClashes(table.physicalName, fields);
  const schema = schemaOf(fields);
  return {
    gate,
    contract,
    fields,
    schema,
    schemaHash: createHash('sha256').update(JSON.stringify(schema)).digest('hex'),
    keyColumns: keySources.map(lakeColumnName),
    keySources,
    bag,
    maxQuarantineRatio: table.maxQuarantineRatio,
    privacy: privacyPlan(table, 'before-lake', hasher),
    logPrivacy: latePrivacyPlan(table, 'before-log', hasher),
    unknownColumns: table.unknownColumns ?? 'evolve',
    contractColumns: table.columns.map((column) => column.name),
    shapeVersion: shape?.version ?? 0,
  };
}

const BAG_FIELD = { isKey: true, onUnrepresentable: 'quarantine', classified: false } as const;
const BAG_FIELDS: readonly PlanField[] = [
  { ...BAG_FIELD, lakeName: ROW_HASH, sourceName: ROW_HASH, type: 'string', made: 'row-hash' },
  { ...BAG_FIELD, lakeName: OCCURRENCE, sourceName: OCCURRENCE, type: 'integer', made: 'occurrence' },
];

/** Our reader takes a table without key columns as a bag. Topics of others (no OID) carry no hash of the row. */
function isBag(table: TableContract, shape: TableShape | null): boolean {
  if (shape === null || shape.oid === 0 || shape.columns.some(({ keyPosition }) => keyPosition > 0)) return false;
  if (keyColumns(table).length === 0) return true;
  throw new StreamError(
    'SCHEMA_CONFLICT',
    `table ${table.physicalName} has no key at the source, and its contract names one`,
    'give the table that primary key, or take primaryKey out of the contract',
  );
}

/** The contract's key; where it names none, the source's. */
function keySourcesOf(table: TableContract, shape: TableShape | null): readonly string[] {
  const named = keyColumns(table).map((column) => column.name);
  if (named.length > 0 || shape === null) return named;
  return shape.columns
    .filter(({ keyPosition }) => keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map(({ name }) => name);
}

const INTEGERS = ['byte', 'short', 'integer', 'long'];
const DECIMAL = /^decimal\((\d+),(\d+)\)$/;

/**
 * The type that a column is written with. Delta tables keep their types: where the source widened a column, values that the
 * table's type still holds go in and others are quarantined, until the table is rewritten; where it became another type
 * altogether, the table stops.
 */
function storedType(
  tableName: string,
  column: string,
  { wanted, standing }: { readonly wanted: DeltaType; readonly standing: DeltaType | undefined },
): DeltaType {
  if (standing === undefined || typeText(standing) === typeText(wanted)) return wanted;
  const from = typeText(standing);
  const to = typeText(wanted);
  const bothIntegers = INTEGERS.includes(from) && INTEGERS.includes(to);
  const bothDecimals = DECIMAL.test(from) && DECIMAL.test(to);
  // Text holds whatever the source prints.
  if (bothIntegers || bothDecimals || from === 'string' || (from === 'double' && to === 'float')) return standing;
  throw new StreamError(
    'SCHEMA_CONFLICT',
    `table ${tableName}: column ${column} is ${from} in the lake and ${to} at the source`,
    `\`sluice repair ${tableName}\` rewrites the table in the new type and reads it whole (its history stays), or give the column its old type back`,
  );
}

function typeText(type: DeltaType): string {
  if (typeof type === 'string') return type;
  return type.type === 'array' ? `array<${typeText(type.elementType)}>` : JSON.stringify(type);
}

function schemaOf(fields: readonly PlanField[]): StructType {
  const columns = fields.map(({ lakeName, sourceName, type }): StructField => ({
    name: lakeName,
    type,
    nullable: true,
    metadata: lakeName === sourceName ? {} : { 'sluice.sourceName': sourceName },
  }));
  return {
    type: 'struct',
    fields: [...columns, { name: COMMITTED_AT, type: 'timestamp', nullable: true, metadata: {} }],
  };
}

function refuseClashes(tableName: string, fields: readonly PlanField[]): void {
  const seen = new Map<string, string>();
  for (const { lakeName, sourceName, made } of fields) {
    const folded = lakeName.toLowerCase();
    if (made === undefined && isReservedName(sourceName))
      throw new StreamError(
        'SCHEMA_CONFLICT',
        `table ${tableName}: column '${sourceName}' has a name that the lake keeps for its own columns`,
        'leave it out by a column list in the publication, or rename it',
      );
    const earlier = seen.get(folded);
    if (earlier === undefined) {
      seen.set(folded, sourceName);
      continue;
    }
    throw new StreamError(
      'SCHEMA_CONFLICT',
      `table ${tableName}: columns '${earlier}' and '${sourceName}' have one name in the lake, where case does not count`,
      'leave one of them out by a column list in the publication, or rename it',
    );
  }
}
