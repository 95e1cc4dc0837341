/**
 * Picking rows out of columns, in any order, from one or several sources. Everything that moves rows (a batch's written
 * rows, base values for absent columns, partitions, rewrites) is this one operation. Buffers are new; sources stay as they are.
 */
import type { BytesColumn, ColumnVector } from '../table/column.ts';

/** As `source`: the row is NULL. */
export const NULL_SOURCE = 0xff;

/** Row i of the result is row `row[i]` of source `source[i]` (of the only one when `source` is null). */
export interface Picks {
  readonly count: number;
  readonly source: Uint8Array | null;
  readonly row: Uint32Array;
}

export function picksOf(rows: Uint32Array): Picks {
  return { count: rows.length, source: null, row: rows };
}

/** `sources` are columns of one type; at least one. */
export function gather(sources: readonly ColumnVector[], picks: Picks): ColumnVector {
  const first = sources[0];
  if (first === undefined) throw new RangeError('nothing to gather from');
  const length = picks.count;
  const validity = gatherValidity(sources, picks);
  switch (first.kind) {
    case 'boolean':
      return { kind: 'boolean', length, validity, values: gatherBits(only(sources, 'boolean'), picks) };
    case 'int32': {
      const values = new Int32Array(length);
      copyNumbers(only(sources, 'int32'), picks, values);
      return { kind: 'int32', length, validity, values };
    }
    case 'float32': {
      const values = new Float32Array(length);
      copyNumbers(only(sources, 'float32'), picks, values);
      return { kind: 'float32', length, validity, values };
    }
    case 'float64': {
      const values = new Float64Array(length);
      copyNumbers(only(sources, 'float64'), picks, values);
      return { kind: 'float64', length, validity, values };
    }
    case 'int64': {
      const values = new BigInt64Array(length);
      copyWords(only(sources, 'int64'), picks, values, 2);
      return { kind: 'int64', length, validity, values };
    }
    case 'decimal': {
      const values = new BigInt64Array(length * 2);
      copyWords(only(sources, 'decimal'), picks, values, 4);
      return { kind: 'decimal', length, validity, precision: first.precision, scale: first.scale, values };
    }
    case 'utf8':
    case 'binary':
      return gatherBytes(first.kind, only(sources, first.kind) as readonly BytesColumn[], picks, validity);
    case 'list': {
      const lists = only(sources, 'list');
      const { offsets, inner } = innerPicks(lists, picks, validity);
      const child = gather(
        lists.map((list) => list.child),
        inner,
      );
      return { kind: 'list', length, validity, offsets, child };
    }
    case 'map': {
      const maps = only(sources, 'map');
      const { offsets, inner } = innerPicks(maps, picks, validity);
      const keys = gather(
        maps.map((map) => map.keys),
        inner,
      );
      const items = gather(
        maps.map((map) => map.items),
        inner,
      );
      return { kind: 'map', length, validity, offsets, keys, items };
    }
    case 'struct': {
      const structs = only(sources, 'struct');
      const children = first.names.map((name) =>
        gather(
          structs.map((struct) => {
            const child = struct.children[struct.names.indexOf(name)];
            if (child === undefined) throw new RangeError(`a struct to gather from lacks the field ${name}`);
            return child;
          }),
          picks,
        ),
      );
      return { kind: 'struct', length, validity, names: first.names, children };
    }
  }
}

type Of<K extends ColumnVector['kind']> = Extract<ColumnVector, { readonly kind: K }>;

function only<K extends ColumnVector['kind']>(sources: readonly ColumnVector[], kind: K): readonly Of<K>[] {
  for (const source of sources)
    if (source.kind !== kind) throw new RangeError(`a ${source.kind} column was to be gathered with a ${kind} column`);
  return sources as readonly Of<K>[];
}

function gatherValidity(sources: readonly ColumnVector[], picks: Picks): Uint8Array | null {
  const { count, source, row } = picks;
  const anyNull = sources.some((column) => column.validity !== null);
  if (!anyNull && (source === null || !source.includes(NULL_SOURCE))) return null;
  const bits = new Uint8Array((count + 7) >> 3);
  let nulls = 0;
  for (let i = 0; i < count; i++) {
    const from = source === null ? 0 : (source[i] ?? 0);
    const column = sources[from];
    const at = row[i] ?? 0;
    const present =
      column !== undefined &&
      from !== NULL_SOURCE &&
      (column.validity === null || ((column.validity[at >> 3] ?? 0) & (1 << (at & 7))) !== 0);
    if (present) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
    else nulls++;
  }
  return nulls === 0 ? null : bits;
}

function gatherBits(sources: readonly Of<'boolean'>[], picks: Picks): Uint8Array {
  const out = new Uint8Array((picks.count + 7) >> 3);
  for (let i = 0; i < picks.count; i++) {
    const values = sources[picks.source === null ? 0 : (picks.source[i] ?? 0)]?.values;
    const at = picks.row[i] ?? 0;
    if (values !== undefined && ((values[at >> 3] ?? 0) & (1 << (at & 7))) !== 0)
      out[i >> 3] = (out[i >> 3] ?? 0) | (1 << (i & 7));
  }
  return out;
}

type Numbers = Int32Array | Float32Array | Float64Array;

function copyNumbers(sources: readonly { readonly values: Numbers }[], picks: Picks, out: Numbers): void {
  const { count, source, row } = picks;
  const first = sources[0]?.values;
  if (first === undefined) return;
  if (source === null) {
    for (let i = 0; i < count; i++) out[i] = first[row[i] ?? 0] ?? 0;
    return;
  }
  for (let i = 0; i < count; i++) out[i] = sources[source[i] ?? 0]?.values[row[i] ?? 0] ?? 0;
}

/** 64- and 128-bit values are moved as 32-bit words: no bigint is made. */
function copyWords(
  sources: readonly { readonly values: BigInt64Array }[],
  picks: Picks,
  out: BigInt64Array,
  words: number,
): void {
  const to = wordsOf(out);
  const froms = sources.map(({ values }) => wordsOf(values));
  for (let i = 0; i < picks.count; i++) {
    const from = froms[picks.source === null ? 0 : (picks.source[i] ?? 0)];
    if (from === undefined) continue;
    const at = (picks.row[i] ?? 0) * words;
    for (let word = 0; word < words; word++) to[i * words + word] = from[at + word] ?? 0;
  }
}

export function wordsOf(values: BigInt64Array | BigUint64Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length * 2);
}

function gatherBytes(
  kind: 'utf8' | 'binary',
  sources: readonly BytesColumn[],
  picks: Picks,
  validity: Uint8Array | null,
): BytesColumn {
  const { count, source, row } = picks;
  const offsets = new Int32Array(count + 1);
  let total = 0;
  for (let i = 0; i < count; i++) {
    const column = sources[source === null ? 0 : (source[i] ?? 0)];
    const at = row[i] ?? 0;
    const valid = validity === null || ((validity[i >> 3] ?? 0) & (1 << (i & 7))) !== 0;
    if (column !== undefined && valid) total += (column.offsets[at + 1] ?? 0) - (column.offsets[at] ?? 0);
    if (total > 0x7fff_ffff) throw new RangeError('a column of more than 2 GiB of text: use smaller batches');
    offsets[i + 1] = total;
  }
  const data = new Uint8Array(total);
  for (let i = 0; i < count; i++) {
    const to = offsets[i] ?? 0;
    const length = (offsets[i + 1] ?? 0) - to;
    if (length === 0) continue;
    const column = sources[source === null ? 0 : (source[i] ?? 0)];
    if (column === undefined) continue;
    const from = column.offsets[row[i] ?? 0] ?? 0;
    // A short copy is cheaper by hand than by a call.
    if (length <= 24) for (let k = 0; k < length; k++) data[to + k] = column.data[from + k] ?? 0;
    else data.set(column.data.subarray(from, from + length), to);
  }
  return { kind, length: count, validity, offsets, data };
}

function innerPicks(
  sources: readonly { readonly offsets: Int32Array }[],
  picks: Picks,
  validity: Uint8Array | null,
): { readonly offsets: Int32Array; readonly inner: Picks } {
  const { count, source, row } = picks;
  const offsets = new Int32Array(count + 1);
  let total = 0;
  for (let i = 0; i < count; i++) {
    const column = sources[source === null ? 0 : (source[i] ?? 0)];
    const at = row[i] ?? 0;
    const valid = validity === null || ((validity[i >> 3] ?? 0) & (1 << (i & 7))) !== 0;
    if (column !== undefined && valid) total += (column.offsets[at + 1] ?? 0) - (column.offsets[at] ?? 0);
    offsets[i + 1] = total;
  }
  const innerRow = new Uint32Array(total);
  const innerSource = source === null ? null : new Uint8Array(total);
  for (let i = 0; i < count; i++) {
    const to = offsets[i] ?? 0;
    const length = (offsets[i + 1] ?? 0) - to;
    const from = sources[source === null ? 0 : (source[i] ?? 0)]?.offsets[row[i] ?? 0] ?? 0;
    for (let k = 0; k < length; k++) innerRow[to + k] = from + k;
    if (innerSource !== null) innerSource.fill(source?.[i] ?? 0, to, to + length);
  }
  return { offsets, inner: { count: total, source: innerSource, row: innerRow } };
}
