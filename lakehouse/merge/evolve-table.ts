/** The metadata (and protocol) actions of a commit that adds columns. */
import { randomUUID } from 'node:crypto';
import type { MetadataAction, ProtocolAction } from '../table/actions.ts';
import { mappingMode, withColumnMapping } from '../table/column-mapping.ts';
import { protocolForType } from '../table/evolve.ts';
import { parseSchema, schemaText } from '../table/schema-json.ts';
import { assertTableSchema } from '../table/schema-rules.ts';
import type { StructType } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import type { MergedSchema } from './table-schema.ts';

export interface Evolution {
  /** The schema to write with: that of the metadata, ids and physical names of new columns included. */
  readonly schema: StructType;
  /** Null: unchanged. */
  readonly metadata: MetadataAction | null;
  readonly protocol: ProtocolAction | null;
}

/** @throws TableError SCHEMA_INVALID */
export function evolveTable(snapshot: Snapshot, merged: MergedSchema): Evolution {
  if (merged.added.length === 0) return { schema: merged.schema, metadata: null, protocol: null };
  const { metadata, protocol, store } = snapshot;
  const { configuration, partitionColumns } = metadata;
  const mapped = mappingMode(metadata) !== 'none';
  const feed = configuration['delta.enableChangeDataFeed'] === 'true';
  assertTableSchema(merged.schema, partitionColumns, feed, store.uri, mapped);
  if (!mapped) {
    const evolved = { ...metadata, schemaString: schemaText(merged.schema) };
    return { schema: merged.schema, metadata: evolved, protocol: protocolForType(protocol, merged.schema) };
  }
  const last = Number(configuration['delta.columnMapping.maxColumnId'] ?? 0);
  const named = withColumnMapping(merged.schema, () => `col-${randomUUID()}`, last);
  const evolved = {
    ...metadata,
    schemaString: schemaText(named.schema),
    configuration: { ...configuration, 'delta.columnMapping.maxColumnId': String(named.maxColumnId) },
  };
  return {
    schema: parseSchema(evolved.schemaString),
    metadata: evolved,
    protocol: protocolForType(protocol, merged.schema),
  };
}
