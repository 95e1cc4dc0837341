/**
 * Sets of row positions as the serialized 64-bit Roaring bitmaps of deletion vectors (PROTOCOL.md, "Deletion Vector
 * Format"; RoaringFormatSpec). In memory a set is its ascending positions: files have fewer than 2^32 rows.
 */
export type RowSet = Uint32Array;

const MAGIC_PORTABLE = 1_681_511_377;
const MAGIC_NATIVE = 1_681_511_376;
const COOKIE_NO_RUNS = 12_346;
const COOKIE_RUNS = 12_347;
/** From this many values on, a bitset of 8 KiB is smaller than two bytes a value. */
const ARRAY_MAX = 4_096;
const BITSET_BYTES = 8_192;

/** Union of two ascending sets. */
export function unionRows(a: RowSet, b: RowSet): RowSet {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const out = new Uint32Array(a.length + b.length);
  let i = 0;
  let j = 0;
  let n = 0;
  while (i < a.length && j < b.length) {
    const x = a[i] ?? 0;
    const y = b[j] ?? 0;
    out[n++] = x < y ? x : y;
    if (x <= y) i++;
    if (y <= x) j++;
  }
  while (i < a.length) out[n++] = a[i++] ?? 0;
  while (j < b.length) out[n++] = b[j++] ?? 0;
  return n === out.length ? out : out.slice(0, n);
}

/** Rows of `a` that are not in `b`. */
export function subtractRows(a: RowSet, b: RowSet): RowSet {
  const out = new Uint32Array(a.length);
  let j = 0;
  let n = 0;
  for (let i = 0; i < a.length; i++) {
    const x = a[i] ?? 0;
    while (j < b.length && (b[j] ?? 0) < x) j++;
    if (j >= b.length || b[j] !== x) out[n++] = x;
  }
  return out.slice(0, n);
}

export function containsRow(set: RowSet, row: number): boolean {
  let low = 0;
  let high = set.length;
  while (low < high) {
    const mid = (low + high) >>> 1;
    if ((set[mid] ?? 0) < row) low = mid + 1;
    else high = mid;
  }
  return set[low] === row;
}

interface Container {
  readonly key: number;
  readonly from: number;
  readonly to: number;
}

/** Array and bitset containers only: every reader accepts them. `rows` ascending, without repeats. */
export function encodeRowBitmap(rows: RowSet): Uint8Array {
  const containers = containersOf(rows);
  let size = 12;
  if (containers.length > 0) size += 4 + 8 + containers.length * 8;
  for (const { from, to } of containers) size += to - from > ARRAY_MAX ? BITSET_BYTES : (to - from) * 2;
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  view.setInt32(0, MAGIC_PORTABLE, true);
  view.setBigInt64(4, containers.length === 0 ? 0n : 1n, true);
  if (containers.length === 0) return bytes;
  view.setUint32(12, 0, true);
  const start = 16;
  view.setUint32(start, COOKIE_NO_RUNS, true);
  view.setUint32(start + 4, containers.length, true);
  let header = start + 8;
  for (const { key, from, to } of containers) {
    view.setUint16(header, key, true);
    view.setUint16(header + 2, to - from - 1, true);
    header += 4;
  }
  let at = header + containers.length * 4;
  for (const container of containers) {
    view.setUint32(header, at - start, true);
    header += 4;
    at = writeContainer(view, at, rows, container);
  }
  return bytes;
}

function containersOf(rows: RowSet): Container[] {
  const containers: Container[] = [];
  let from = 0;
  for (let i = 1; i <= rows.length; i++) {
    const key = (rows[from] ?? 0) >>> 16;
    if (i < rows.length && (rows[i] ?? 0) <= (rows[i - 1] ?? 0)) throw new RangeError('rows out of order');
    if (i < rows.length && (rows[i] ?? 0) >>> 16 === key) continue;
    containers.push({ key, from, to: i });
    from = i;
  }
  return containers;
}

function writeContainer(view: DataView, start: number, rows: RowSet, { from, to }: Container): number {
  let at = start;
  if (to - from <= ARRAY_MAX) {
    for (let i = from; i < to; i++, at += 2) view.setUint16(at, (rows[i] ?? 0) & 0xffff, true);
    return at;
  }
  for (let i = from; i < to; i++) {
    const low = (rows[i] ?? 0) & 0xffff;
    view.setUint8(at + (low >> 3), view.getUint8(at + (low >> 3)) | (1 << (low & 7)));
  }
  return at + BITSET_BYTES;
}

/** @throws RangeError when the bytes are no such bitmap, or name rows of 2^32 and more */
export function decodeRowBitmap(bytes: Uint8Array): RowSet {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = view.getInt32(0, true);
  const parts: RowSet[] = [];
  let at: number;
  if (magic === MAGIC_PORTABLE) {
    const buckets = view.getBigInt64(4, true);
    at = 12;
    for (let i = 0n; i < buckets; i++) {
      if (view.getUint32(at, true) !== 0) throw new RangeError('rows of 2^32 and more');
      const { rows, end } = decodeRoaring(view, at + 4);
      parts.push(rows);
      at = end;
    }
  } else if (magic === MAGIC_NATIVE) {
    const count = view.getInt32(4, true);
    at = 8;
    for (let i = 0; i < count; i++) {
      const size = view.getInt32(at, true);
      const { rows, end } = decodeRoaring(view, at + 4);
      if (i > 0 && rows.length > 0) throw new RangeError('rows of 2^32 and more');
      if (end !== at + 4 + size) throw new RangeError('a bitmap of another size than it says');
      parts.push(rows);
      at = end;
    }
  } else throw new RangeError(`magic number ${magic} is not known`);
  return parts.reduce(unionRows, new Uint32Array(0));
}

function decodeRoaring(view: DataView, start: number): { rows: RowSet; end: number } {
  const cookie = view.getUint32(start, true);
  const hasRuns = (cookie & 0xffff) === COOKIE_RUNS;
  if (!hasRuns && cookie !== COOKIE_NO_RUNS) throw new RangeError(`cookie ${cookie} is not known`);
  const count = hasRuns ? (cookie >>> 16) + 1 : view.getUint32(start + 4, true);
  if (count > 65_536) throw new RangeError(`${count} containers`);
  const runFlags = start + 4;
  const header = hasRuns ? runFlags + ((count + 7) >> 3) : start + 8;
  let at = header + count * 4;
  // The offset header is there always without runs, and with runs from four containers on; data follows in order.
  if (!hasRuns || count >= 4) at += count * 4;
  const containers: { key: number; cardinality: number; isRun: boolean }[] = [];
  let total = 0;
  for (let i = 0; i < count; i++) {
    const cardinality = view.getUint16(header + i * 4 + 2, true) + 1;
    const isRun = hasRuns && (view.getUint8(runFlags + (i >> 3)) & (1 << (i & 7))) !== 0;
    containers.push({ key: view.getUint16(header + i * 4, true), cardinality, isRun });
    total += cardinality;
  }
  const rows = new Uint32Array(total);
  let n = 0;
  for (const { key, cardinality, isRun } of containers) {
    const read = isRun ? readRuns : cardinality > ARRAY_MAX ? readBitset : readArray;
    const before = n;
    ({ n, at } = read(view, at, key * 65_536, cardinality, rows, n));
    if (n - before !== cardinality) throw new RangeError('a container of another cardinality than it says');
  }
  for (let i = 1; i < n; i++) if ((rows[i] ?? 0) <= (rows[i - 1] ?? 0)) throw new RangeError('rows out of order');
  return { rows, end: at };
}

type ReadContainer = (
  view: DataView,
  at: number,
  base: number,
  cardinality: number,
  rows: RowSet,
  n: number,
) => { n: number; at: number };

const readArray: ReadContainer = (view, at, base, cardinality, rows, n) => {
  for (let i = 0; i < cardinality; i++) rows[n + i] = base + view.getUint16(at + i * 2, true);
  return { n: n + cardinality, at: at + cardinality * 2 };
};

const readBitset: ReadContainer = (view, at, base, _, rows, start) => {
  let n = start;
  for (let byte = 0; byte < BITSET_BYTES; byte++) {
    const bits = view.getUint8(at + byte);
    for (let k = 0; k < 8; k++) if ((bits & (1 << k)) !== 0) rows[n++] = base + byte * 8 + k;
  }
  return { n, at: at + BITSET_BYTES };
};

const readRuns: ReadContainer = (view, at, base, _, rows, start) => {
  const runs = view.getUint16(at, true);
  let n = start;
  for (let i = 0; i < runs; i++) {
    const first = view.getUint16(at + 2 + i * 4, true);
    const more = view.getUint16(at + 4 + i * 4, true);
    if (first + more > 65_535) throw new RangeError('a run leaves its container');
    for (let k = 0; k <= more; k++) rows[n++] = base + first + k;
  }
  return { n, at: at + 2 + runs * 4 };
};
