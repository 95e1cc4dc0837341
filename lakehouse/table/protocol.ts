/**
 * Which tables this code may read and write (PROTOCOL.md, "Table Features"). An unknown feature is refused by name:
 * reading on would give wrong rows in silence.
 */
import type { MetadataAction, ProtocolAction } from './actions.ts';
import { parseSchema } from './schema-json.ts';
import type { StructType } from './schema.ts';
import { usesType, walkFields } from './schema-walk.ts';
import { TableError } from './table-error.ts';

/** Reader features this code honours. */
const READABLE: ReadonlySet<string> = new Set([
  'deletionVectors',
  'columnMapping',
  'timestampNtz',
  'typeWidening',
  'typeWidening-preview',
  'v2Checkpoint',
  'vacuumProtocolCheck',
]);

/**
 * Writer features this code honours, or that bind it only when a table uses them; `usedFeature` finds those uses. Not
 * here: rowTracking (rewritten rows must carry their ids), clustering, identity columns, iceberg compatibility.
 */
const WRITABLE: ReadonlySet<string> = new Set([
  'appendOnly',
  'invariants',
  'checkConstraints',
  'generatedColumns',
  'allowColumnDefaults',
  'identityColumns',
  'changeDataFeed',
  'columnMapping',
  'deletionVectors',
  'timestampNtz',
  'v2Checkpoint',
  'domainMetadata',
  'inCommitTimestamp',
  'vacuumProtocolCheck',
  // Spark lists it where a feature was dropped. It binds what makes checkpoints while it cleans the log, or takes newer ones away:
  // upkeep/clean-log.ts does neither.
  'checkpointProtection',
]);

/** Features that bind whoever adds or rewrites rows; the actions that carry them pass through a checkpoint as they are. */
const KEPT: ReadonlySet<string> = new Set(['rowTracking', 'clustering', 'typeWidening', 'typeWidening-preview']);

/** Features that delta-rs lists in tables which make no use of them: such a table is read and written, one with a variant is not. */
const VARIANT: ReadonlySet<string> = new Set([
  'variantType',
  'variantType-preview',
  'variantShredding',
  'variantShredding-preview',
]);

const LEGACY_WRITER: readonly (readonly [number, readonly string[]])[] = [
  [2, ['appendOnly', 'invariants']],
  [3, ['checkConstraints']],
  [4, ['changeDataFeed', 'generatedColumns']],
  [5, ['columnMapping']],
  [6, ['identityColumns']],
];

/** @throws TableError PROTOCOL_UNSUPPORTED */
export function assertReadable(protocol: ProtocolAction, table: string): void {
  const { minReaderVersion: version } = protocol;
  if (version < 1 || version > 3) {
    throw unsupported(table, `the table needs Delta reader version ${version}; this version of sluice reads up to 3`);
  }
  if (version === 3 && protocol.readerFeatures === null) {
    throw unsupported(table, 'the table has reader version 3 but no list of reader features');
  }
  const unknown = readerFeatures(protocol).filter((feature) => !READABLE.has(feature) && !VARIANT.has(feature));
  if (unknown.length > 0) {
    throw unsupported(table, `the table needs the reader feature${plural(unknown)}, which this version cannot read`);
  }
}

/** Features that bind readers only where a column makes use of them. @throws TableError PROTOCOL_UNSUPPORTED */
export function assertReadableColumns(protocol: ProtocolAction, schema: StructType, table: string): void {
  const listed = readerFeatures(protocol).filter((feature) => VARIANT.has(feature));
  const used = listed.length === 0 ? null : schema.fields.find(({ type }) => usesType(type, 'variant'));
  if (used == null) return;
  throw unsupported(
    table,
    `the table needs the reader feature${plural(listed)} for its column "${used.name}", which this version cannot read`,
  );
}

/**
 * Whether a commit by this code keeps the table's promises.
 * @throws TableError PROTOCOL_UNSUPPORTED naming the feature and where the table uses it
 */
export function assertWritable(protocol: ProtocolAction, metadata: MetadataAction, table: string): void {
  assertRearrangeable(protocol, table);
  const used = usedRule(writerFeatures(protocol), metadata);
  if (used !== null) throw unsupported(table, `the table has ${used}, which this version cannot enforce when writing`);
}

/**
 * Whether a rearrangement by this code (OPTIMIZE) keeps the table's promises: no row is added or changed by it, so rules for
 * rows bind it not.
 * @throws TableError PROTOCOL_UNSUPPORTED naming the feature
 */
export function assertRearrangeable(protocol: ProtocolAction, table: string): void {
  assertWriterFeatures(protocol, table, (feature) => WRITABLE.has(feature));
}

/**
 * Whether upkeep that leaves every data file as it is (VACUUM, checkpoints, log cleanup) keeps the table's promises.
 * @throws TableError PROTOCOL_UNSUPPORTED naming the feature
 */
export function assertMaintainable(protocol: ProtocolAction, table: string): void {
  assertWriterFeatures(protocol, table, (feature) => WRITABLE.has(feature) || KEPT.has(feature));
}

function assertWriterFeatures(protocol: ProtocolAction, table: string, known: (feature: string) => boolean): void {
  assertReadable(protocol, table);
  const { minWriterVersion: version } = protocol;
  if (version < 1 || version > 7) {
    throw unsupported(table, `the table needs Delta writer version ${version}; this version of sluice writes up to 7`);
  }
  const unknown = writerFeatures(protocol).filter((feature) => !known(feature) && !VARIANT.has(feature));
  if (unknown.length > 0) {
    throw unsupported(table, `the table needs the writer feature${plural(unknown)}, which this version cannot write`);
  }
}

export function readerFeatures(protocol: ProtocolAction): readonly string[] {
  if (protocol.minReaderVersion >= 3) return protocol.readerFeatures ?? [];
  return protocol.minReaderVersion === 2 ? ['columnMapping'] : [];
}

/** Features a writer must honour, those that older writer versions imply included. */
export function writerFeatures(protocol: ProtocolAction): readonly string[] {
  if (protocol.minWriterVersion >= 7) return protocol.writerFeatures ?? [];
  return LEGACY_WRITER.filter(([version]) => version <= protocol.minWriterVersion).flatMap(([, features]) => features);
}

/** The first rule in use that would need an SQL evaluator or id generation, in words; null when there is none. */
function usedRule(features: readonly string[], metadata: MetadataAction): string | null {
  const constraint = Object.keys(metadata.configuration).find((key) => key.startsWith('delta.constraints.'));
  if (features.includes('checkConstraints') && constraint !== undefined) {
    return `the CHECK constraint "${constraint.slice('delta.constraints.'.length)}"`;
  }
  for (const { field } of walkFields(parseSchema(metadata.schemaString))) {
    if (features.includes('invariants') && field.metadata['delta.invariants'] !== undefined) {
      return `an invariant on column "${field.name}"`;
    }
    if (features.includes('generatedColumns') && field.metadata['delta.generationExpression'] !== undefined) {
      return `the generated column "${field.name}"`;
    }
    if (features.includes('identityColumns') && field.metadata['delta.identity.start'] !== undefined) {
      return `the identity column "${field.name}"`;
    }
  }
  return null;
}

function plural(names: readonly string[]): string {
  return `${names.length > 1 ? 's' : ''} ${names.map((name) => `"${name}"`).join(', ')}`;
}

function unsupported(table: string, message: string): TableError {
  return new TableError('PROTOCOL_UNSUPPORTED', { table }, message);
}
