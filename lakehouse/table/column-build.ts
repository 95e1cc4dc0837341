/** Columns from plain values, for small files (checkpoints, fences). Not for the data path. */
import type { ColumnVector } from './column.ts';
import type { DeltaType, PrimitiveName } from './schema.ts';

/** Value of a row: null or undefined is NULL; long is bigint, integer number, string text, map a record, array a list, struct a record. */
export type ValueAt = (row: number) => unknown;

const OFFSET_MAX = 2_147_483_647;

/**
 * @throws RangeError when text adds up to more than 2 GiB; TypeError when a value is not of the type
 */
export function buildColumn(type: DeltaType, length: number, valueAt: ValueAt): ColumnVector {
  if (typeof type === 'string') return buildPrimitive(type, length, valueAt);
  const validity = validityOf(length, valueAt);
  switch (type.type) {
    case 'struct':
      return {
        kind: 'struct',
        length,
        validity,
        names: type.fields.map(({ name }) => name),
        children: type.fields.map((field) =>
          buildColumn(field.type, length, (row) => member(valueAt(row), field.name)),
        ),
      };
    case 'array': {
      const { offsets, items } = flatten(length, (row) => asList(valueAt(row)));
      const child = buildColumn(type.elementType, items.length, (at) => items[at]);
      return { kind: 'list', length, validity, offsets, child };
    }
    case 'map': {
      const { offsets, keys, items } = flattenMaps(length, valueAt);
      return {
        kind: 'map',
        length,
        validity,
        offsets,
        keys: buildColumn(type.keyType, keys.length, (at) => keys[at]),
        items: buildColumn(type.valueType, items.length, (at) => items[at]),
      };
    }
  }
}

function buildPrimitive(type: PrimitiveName, length: number, valueAt: ValueAt): ColumnVector {
  const validity = validityOf(length, valueAt);
  switch (type) {
    case 'string':
      return { kind: 'utf8', length, validity, ...buildText(length, valueAt) };
    case 'long': {
      const values = new BigInt64Array(length);
      for (let row = 0; row < length; row++) {
        const value = valueAt(row);
        if (value != null) values[row] = asLong(value);
      }
      return { kind: 'int64', length, validity, values };
    }
    case 'integer': {
      const values = new Int32Array(length);
      for (let row = 0; row < length; row++) {
        const value = valueAt(row);
        if (value != null) values[row] = asInteger(value);
      }
      return { kind: 'int32', length, validity, values };
    }
    case 'boolean': {
      const values = new Uint8Array((length + 7) >> 3);
      for (let row = 0; row < length; row++) {
        if (valueAt(row) === true) values[row >> 3] = (values[row >> 3] ?? 0) | (1 << (row & 7));
      }
      return { kind: 'boolean', length, validity, values };
    }
    default:
      throw new TypeError(`no builder for ${type} columns`);
  }
}

/** Two passes: lengths first, then bytes into one buffer of just that size. */
function buildText(length: number, valueAt: ValueAt): { offsets: Int32Array; data: Uint8Array } {
  const offsets = new Int32Array(length + 1);
  let end = 0;
  for (let row = 0; row < length; row++) {
    const value = valueAt(row);
    if (value != null) end += Buffer.byteLength(asText(value), 'utf8');
    if (end > OFFSET_MAX) throw new RangeError('a text column of more than 2 GiB');
    offsets[row + 1] = end;
  }
  const data = Buffer.allocUnsafe(end);
  for (let row = 0; row < length; row++) {
    const value = valueAt(row);
    if (value != null) data.write(asText(value), offsets[row] ?? 0, 'utf8');
  }
  return { offsets, data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

function validityOf(length: number, valueAt: ValueAt): Uint8Array | null {
  const bits = new Uint8Array((length + 7) >> 3);
  let present = 0;
  for (let row = 0; row < length; row++) {
    if (valueAt(row) == null) continue;
    bits[row >> 3] = (bits[row >> 3] ?? 0) | (1 << (row & 7));
    present++;
  }
  return present === length ? null : bits;
}

function flatten<T>(length: number, listAt: (row: number) => readonly T[]): { offsets: Int32Array; items: T[] } {
  const offsets = new Int32Array(length + 1);
  const items: T[] = [];
  for (let row = 0; row < length; row++) {
    for (const item of listAt(row)) items.push(item);
    offsets[row + 1] = items.length;
  }
  return { offsets, items };
}

/** Keys and values side by side: an object a pair would cost more than the map. */
function flattenMaps(
  length: number,
  valueAt: ValueAt,
): { offsets: Int32Array; keys: readonly string[]; items: readonly unknown[] } {
  const offsets = new Int32Array(length + 1);
  const keys: string[] = [];
  const items: unknown[] = [];
  for (let row = 0; row < length; row++) {
    const map = valueAt(row);
    if (map != null) {
      if (typeof map !== 'object') throw new TypeError('a map value is no object');
      for (const key of Object.keys(map)) {
        keys.push(key);
        items.push((map as Readonly<Record<string, unknown>>)[key]);
      }
    }
    offsets[row + 1] = keys.length;
  }
  return { offsets, keys, items };
}

function member(value: unknown, name: string): unknown {
  if (value == null) return null;
  if (typeof value !== 'object') throw new TypeError('a struct value is no object');
  return (value as Readonly<Record<string, unknown>>)[name];
}

function asList(value: unknown): readonly unknown[] {
  if (value == null) return [];
  if (!Array.isArray(value)) throw new TypeError('a list value is no array');
  return value;
}

function asText(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError('a string value is no text');
  return value;
}

function asLong(value: unknown): bigint {
  if (typeof value !== 'bigint') throw new TypeError('a long value is no bigint');
  return BigInt.asIntN(64, value);
}

function asInteger(value: unknown): number {
  if (typeof value !== 'number' || !Number.isInteger(value)) throw new TypeError('an integer value is no integer');
  return value;
}
