/**
 * Changes of a table's schema and properties, as metadata alone: no file is touched, and older versions read as before.
 * Pure functions of a snapshot, so that a lost race simply means to ask again on top of the winner. (A wider type needs the
 * files rewritten: upkeep/widen-column.ts.)
 */
import type { MetadataAction, ProtocolAction } from './actions.ts';
import { mappingMode, withColumnMapping } from './column-mapping.ts';
import { readerFeatures, writerFeatures } from './protocol.ts';
import type { DeltaType, StructField, StructType } from './schema.ts';
import { schemaText } from './schema-json.ts';
import { assertTableSchema } from './schema-rules.ts';
import { usesType } from './schema-walk.ts';
import type { Snapshot } from './snapshot.ts';
import { TableError } from './table-error.ts';
import { changedProperties } from './table-properties.ts';

export type TableChange =
  /** Old files have no such column: their rows read as NULL, so it must be nullable. */
  | { readonly kind: 'add-column'; readonly name: string; readonly type: DeltaType; readonly comment?: string }
  /** Column mapping only. */
  | { readonly kind: 'rename-column'; readonly from: string; readonly to: string }
  /** Column mapping only; the values stay in the files until those are rewritten. */
  | { readonly kind: 'drop-column'; readonly name: string }
  | { readonly kind: 'drop-not-null'; readonly name: string }
  /** `column` null: of the table. `text` null: none. */
  | { readonly kind: 'comment'; readonly column: string | null; readonly text: string | null }
  /** A null value unsets the property. */
  | { readonly kind: 'properties'; readonly set: Readonly<Record<string, string | null>> }
  /** Turns column mapping on; some readers (Polars) then no longer read the table. It is not turned off again. */
  | { readonly kind: 'column-mapping' };

export interface Evolved {
  readonly metadata: MetadataAction;
  /** Null: unchanged. */
  readonly protocol: ProtocolAction | null;
}

export interface EvolveContext {
  readonly newId: () => string;
  /** In-commit timestamp and version of the commit that this becomes, for the properties that record them. */
  readonly commitVersion: bigint;
  readonly commitMs: number;
}

/**
 * Null when the table already is so.
 * @throws TableError SCHEMA_INVALID | UPKEEP_REFUSED
 */
export function evolve(snapshot: Snapshot, change: TableChange, context: EvolveContext): Evolved | null {
  const evolved = apply(snapshot, change, context);
  const before = snapshot.metadata;
  const same =
    evolved.protocol === null &&
    evolved.metadata.schemaString === before.schemaString &&
    evolved.metadata.description === before.description &&
    JSON.stringify(evolved.metadata.configuration) === JSON.stringify(before.configuration);
  return same ? null : evolved;
}

function apply(snapshot: Snapshot, change: TableChange, context: EvolveContext): Evolved {
  const { metadata } = snapshot;
  switch (change.kind) {
    case 'add-column':
      return addColumn(snapshot, change, context);
    case 'rename-column':
      return renameColumn(snapshot, change.from, change.to);
    case 'drop-column':
      return dropColumn(snapshot, change.name);
    case 'drop-not-null':
      return withField(snapshot, change.name, (field) => ({ ...field, nullable: true }));
    case 'comment': {
      const { column, text } = change;
      if (column === null) return { metadata: { ...metadata, description: text }, protocol: null };
      return withField(snapshot, column, (field) => {
        const { comment: _old, ...others } = field.metadata;
        return { ...field, metadata: text === null ? others : { ...others, comment: text } };
      });
    }
    case 'properties': {
      const { configuration, features } = changedProperties(snapshot, change.set, context);
      return { metadata: { ...metadata, configuration }, protocol: withFeatures(snapshot.protocol, features) };
    }
    case 'column-mapping':
      return mapColumns(snapshot, context);
  }
}

function addColumn(
  snapshot: Snapshot,
  change: TableChange & { readonly kind: 'add-column' },
  context: EvolveContext,
): Evolved {
  const field: StructField = {
    name: change.name,
    type: change.type,
    nullable: true,
    metadata: change.comment === undefined ? {} : { comment: change.comment },
  };
  const plain: StructType = { type: 'struct', fields: [...snapshot.schema.fields, field] };
  const protocol = protocolForType(snapshot.protocol, change.type);
  if (mappingMode(snapshot.metadata) === 'none') return { ...withSchema(snapshot, plain), protocol };
  const last = Number(snapshot.metadata.configuration['delta.columnMapping.maxColumnId'] ?? 0);
  const mapped = withColumnMapping(plain, context.newId, last);
  const { metadata } = withSchema(snapshot, mapped.schema);
  const configuration = { ...metadata.configuration, 'delta.columnMapping.maxColumnId': String(mapped.maxColumnId) };
  return { metadata: { ...metadata, configuration }, protocol };
}

function renameColumn(snapshot: Snapshot, from: string, to: string): Evolved {
  requireMapping(snapshot, 'renamed');
  const { metadata } = withField(snapshot, from, (field) => ({ ...field, name: to }));
  const partitionColumns = metadata.partitionColumns.map((name) => (name === from ? to : name));
  return { metadata: { ...metadata, partitionColumns }, protocol: null };
}

function dropColumn(snapshot: Snapshot, name: string): Evolved {
  requireMapping(snapshot, 'dropped');
  requireField(snapshot, name);
  if (snapshot.metadata.partitionColumns.includes(name)) {
    throw refused(snapshot, `column "${name}" partitions the table and cannot be dropped`);
  }
  const fields = snapshot.schema.fields.filter((field) => field.name !== name);
  return withSchema(snapshot, { type: 'struct', fields });
}

function mapColumns(snapshot: Snapshot, context: EvolveContext): Evolved {
  const { metadata } = snapshot;
  if (mappingMode(metadata) !== 'none') return { metadata, protocol: null };
  // Files that stand have the columns by their present names: those become the physical ones.
  const named = withColumnMapping(snapshot.schema, context.newId, 0, (field) => field.name);
  const configuration = {
    ...metadata.configuration,
    'delta.columnMapping.mode': 'name',
    'delta.columnMapping.maxColumnId': String(named.maxColumnId),
  };
  return {
    metadata: { ...metadata, schemaString: schemaText(named.schema), configuration },
    protocol: withFeatures(snapshot.protocol, { reader: ['columnMapping'], writer: ['columnMapping'] }),
  };
}

function withField(snapshot: Snapshot, name: string, change: (field: StructField) => StructField): Evolved {
  requireField(snapshot, name);
  const fields = snapshot.schema.fields.map((field) => (field.name === name ? change(field) : field));
  return withSchema(snapshot, { type: 'struct', fields });
}

function withSchema(snapshot: Snapshot, schema: StructType): Evolved & { readonly protocol: null } {
  const { metadata } = snapshot;
  const feed = metadata.configuration['delta.enableChangeDataFeed'] === 'true';
  // Partition columns are checked by the names they have after a rename.
  const partitions = metadata.partitionColumns.filter((name) => schema.fields.some((field) => field.name === name));
  assertTableSchema(schema, partitions, feed, snapshot.store.uri, mappingMode(metadata) !== 'none');
  return { metadata: { ...metadata, schemaString: schemaText(schema) }, protocol: null };
}

function requireField(snapshot: Snapshot, name: string): void {
  if (snapshot.schema.fields.some((field) => field.name === name)) return;
  throw new TableError('SCHEMA_INVALID', { table: snapshot.store.uri }, `the table has no column "${name}"`);
}

function requireMapping(snapshot: Snapshot, what: string): void {
  if (mappingMode(snapshot.metadata) !== 'none') return;
  throw refused(
    snapshot,
    `without column mapping a column cannot be ${what}: files hold it by its name. Turn column mapping on first (some readers then no longer read the table), or write a new table`,
  );
}

function refused(snapshot: Snapshot, message: string): TableError {
  return new TableError('UPKEEP_REFUSED', { table: snapshot.store.uri, version: snapshot.version }, message);
}

/** The protocol with what a type needs, at any depth; null when nothing is missing. */
export function protocolForType(protocol: ProtocolAction, type: DeltaType): ProtocolAction | null {
  const ntz = ['timestampNtz'];
  return usesType(type, 'timestamp_ntz') ? withFeatures(protocol, { reader: ntz, writer: ntz }) : null;
}

/** The protocol with these features listed too, those that its versions implied included; null when nothing is missing. */
export function withFeatures(
  protocol: ProtocolAction,
  features: { readonly reader: readonly string[]; readonly writer: readonly string[] },
): ProtocolAction | null {
  const reader = readerFeatures(protocol);
  const writer = writerFeatures(protocol);
  const newReader = features.reader.filter((name) => !reader.includes(name));
  const newWriter = features.writer.filter((name) => !writer.includes(name));
  const legacyMapping = features.reader.includes('columnMapping') && protocol.minReaderVersion === 2;
  if (newReader.length === 0 && newWriter.length === 0 && !legacyMapping) return null;
  const allReader = [...reader, ...newReader];
  return {
    minReaderVersion: allReader.length === 0 ? 1 : 3,
    minWriterVersion: 7,
    readerFeatures: allReader.length === 0 ? null : allReader,
    writerFeatures: [...new Set([...writer, ...newWriter, ...allReader])],
  };
}
