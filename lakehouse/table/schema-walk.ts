/** Visits every field of a schema, nested ones too. */
import type { DeltaType, PrimitiveName, StructField } from './schema.ts';

/** Depth first, a struct's field before its children. `path` holds field names; lists and maps add `element`, `key`, `value`. */
export function* walkFields(
  type: DeltaType,
  path: readonly string[] = [],
): Iterable<{ readonly field: StructField; readonly path: readonly string[] }> {
  if (typeof type === 'string') return;
  switch (type.type) {
    case 'struct':
      for (const field of type.fields) {
        const at = [...path, field.name];
        yield { field, path: at };
        yield* walkFields(field.type, at);
      }
      return;
    case 'array':
      yield* walkFields(type.elementType, [...path, 'element']);
      return;
    case 'map':
      yield* walkFields(type.keyType, [...path, 'key']);
      yield* walkFields(type.valueType, [...path, 'value']);
      return;
  }
}

/** Whether the primitive occurs anywhere in the type. */
export function usesType(type: DeltaType, name: PrimitiveName): boolean {
  if (typeof type === 'string') return type === name;
  switch (type.type) {
    case 'struct':
      return type.fields.some((field) => usesType(field.type, name));
    case 'array':
      return usesType(type.elementType, name);
    case 'map':
      return usesType(type.keyType, name) || usesType(type.valueType, name);
  }
}
