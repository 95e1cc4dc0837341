/**
 * Column mapping (PROTOCOL.md, "Column Mapping"): files, statistics and partition values use a field's physical name (or,
 * in id mode, its id), so that a column can be renamed or dropped without touching a file.
 */
import type { MetadataAction } from './actions.ts';
import type { DeltaType, StructField, StructType } from './schema.ts';

export type MappingMode = 'none' | 'name' | 'id';

export const FIELD_ID = 'delta.columnMapping.id';
export const PHYSICAL_NAME = 'delta.columnMapping.physicalName';

export function mappingMode(metadata: MetadataAction): MappingMode {
  const mode = metadata.configuration['delta.columnMapping.mode'];
  return mode === 'name' || mode === 'id' ? mode : 'none';
}

/** The name a field has in files, statistics and partition values. */
export function physicalName(field: StructField, mode: MappingMode): string {
  const name = field.metadata[PHYSICAL_NAME];
  return mode !== 'none' && typeof name === 'string' ? name : field.name;
}

/** The id a field has in Parquet files, or null. */
export function fieldId(field: StructField, mode: MappingMode): number | null {
  const id = field.metadata[FIELD_ID];
  return mode !== 'none' && typeof id === 'number' ? id : null;
}

/** The schema as files have it: physical names throughout, everything else kept. The same object when nothing is mapped. */
export function physicalSchema(schema: StructType, mode: MappingMode): StructType {
  if (mode === 'none') return schema;
  return mapStruct(schema, (field) => ({ ...field, name: physicalName(field, mode) }));
}

/** Physical names of top-level columns (partition columns, for instance), in the order asked. */
export function physicalNames(schema: StructType, names: readonly string[], mode: MappingMode): readonly string[] {
  return names.map((name) => {
    const field = schema.fields.find((candidate) => candidate.name === name);
    return field === undefined ? name : physicalName(field, mode);
  });
}

/**
 * Gives every field without one an id (above `maxColumnId`) and a physical name.
 * @param newId for `col-<uuid>`
 * @param nameOf another physical name: the present one, where files already have the column by it
 */
export function withColumnMapping(
  schema: StructType,
  newId: () => string,
  maxColumnId = 0,
  nameOf: (field: StructField) => string = () => `col-${newId()}`,
): { readonly schema: StructType; readonly maxColumnId: number } {
  let last = maxColumnId;
  const mapped = mapStruct(schema, (field) => {
    if (typeof field.metadata[FIELD_ID] === 'number') return field;
    last++;
    return { ...field, metadata: { ...field.metadata, [FIELD_ID]: last, [PHYSICAL_NAME]: nameOf(field) } };
  });
  return { schema: mapped, maxColumnId: last };
}

function mapStruct(type: StructType, change: (field: StructField) => StructField): StructType {
  return {
    type: 'struct',
    fields: type.fields.map((field) => {
      const changed = change(field);
      return { ...changed, type: mapType(changed.type, change) };
    }),
  };
}

function mapType(type: DeltaType, change: (field: StructField) => StructField): DeltaType {
  if (typeof type === 'string') return type;
  switch (type.type) {
    case 'struct':
      return mapStruct(type, change);
    case 'array':
      return { ...type, elementType: mapType(type.elementType, change) };
    case 'map':
      return { ...type, keyType: mapType(type.keyType, change), valueType: mapType(type.valueType, change) };
  }
}
