/**
 * One leaf column's levels and values, read page by page (parquet-format: "Data Pages", "Nested Encoding"). With wanted
 * rows, only pages that hold one are fetched (by the offset index) and only those rows are kept.
 */
import { deserializeTCompactProtocol } from 'hyparquet/src/thrift.js';
import { crc32 } from 'node:zlib';
import { readSpans, type ByteSource, type Span } from './byte-source.ts';
import { PageFault } from './codec.ts';
import { readDictionary, readDataPage, type DataPage, type PageHeader } from './page.ts';
import type { Chunk, FileNode, RowGroup } from './footer.ts';
import { concatValues, gatherValues, type LeafValues } from './leaf-values.ts';

/**
 * A leaf's level stream and its present values. `defs` null: every entry is at the leaf's full definition level (and
 * `values` has one value an entry); `reps` null: the leaf is in no list.
 */
export interface LeafData {
  readonly count: number;
  readonly defs: Uint8Array | null;
  readonly reps: Uint8Array | null;
  readonly values: LeafValues;
}

/** Below this size a chunk is fetched whole: looking up its pages costs a request more. */
const WHOLE_CHUNK_BYTES = 128 * 1024;

/** Rows wanted from one row group, ascending, relative to its first row; null = all. */
export type WantedRows = Int32Array | null;

interface PagePlan {
  readonly dictionary: Span | null;
  /** Whole chunk, or the pages that hold wanted rows. */
  readonly pages: readonly { readonly span: Span; readonly firstRow: number }[];
  /** Whether each page's rows are known before it is decoded. */
  readonly indexed: boolean;
}

/** Reads the given leaves of one row group, all their bytes in one round of requests. */
export async function readLeaves(
  source: ByteSource,
  group: RowGroup,
  leaves: readonly { readonly index: number; readonly node: FileNode }[],
  wanted: WantedRows,
): Promise<LeafData[]> {
  const chunks = leaves.map(({ index }) => {
    const chunk = group.chunks[index];
    if (chunk === undefined) throw new PageFault('a row group lacks a column chunk');
    return chunk;
  });
  const plans = await planPages(source, group, chunks, wanted);
  const spans = plans.flatMap((plan) => [
    ...(plan.dictionary === null ? [] : [plan.dictionary]),
    ...plan.pages.map((page) => page.span),
  ]);
  const bytes = await readSpans(source, spans);
  let next = 0;
  return plans.map((plan, i) => {
    const leaf = leaves[i];
    const chunk = chunks[i];
    if (leaf === undefined || chunk === undefined) throw new PageFault('a row group lacks a column chunk');
    const size = plan.pages.length + (plan.dictionary === null ? 0 : 1);
    const parts = bytes.slice(next, next + size);
    next += size;
    return decodeLeaf(plan, parts, chunk, leaf.node, group.rowCount, wanted);
  });
}

async function planPages(
  source: ByteSource,
  group: RowGroup,
  chunks: readonly Chunk[],
  wanted: WantedRows,
): Promise<PagePlan[]> {
  const usesIndex = (chunk: Chunk): boolean =>
    wanted !== null && chunk.offsetIndex !== null && chunk.end - chunk.start > WHOLE_CHUNK_BYTES;
  const indexed = chunks.filter(usesIndex);
  const indexes = await readSpans(
    source,
    indexed.map((chunk) => chunk.offsetIndex ?? { start: 0, end: 0 }),
  );
  return chunks.map((chunk) => {
    const bytes = usesIndex(chunk) ? indexes[indexed.indexOf(chunk)] : undefined;
    if (bytes === undefined || wanted === null)
      return { dictionary: null, pages: [{ span: chunk, firstRow: 0 }], indexed: false };
    return planByIndex(bytes, chunk, group.rowCount, wanted);
  });
}

interface ThriftLocation {
  readonly field_1: bigint;
  readonly field_2: number;
  readonly field_3: bigint;
}

function planByIndex(bytes: Uint8Array, chunk: Chunk, rowCount: number, wanted: Int32Array): PagePlan {
  const index = thriftAt(bytes, 0).value as { readonly field_1?: readonly ThriftLocation[] };
  const locations = index.field_1 ?? [];
  const pages: { span: Span; firstRow: number }[] = [];
  let w = 0;
  locations.forEach((location, i) => {
    const firstRow = Number(location.field_3);
    const next = locations[i + 1];
    const endRow = next === undefined ? rowCount : Number(next.field_3);
    const start = Number(location.field_1);
    const end = start + location.field_2;
    if (start < chunk.start || end > chunk.end || endRow < firstRow) throw new PageFault('its offset index is wrong');
    const before = w;
    while (w < wanted.length && (wanted[w] ?? 0) < endRow) w++;
    if (w > before) pages.push({ span: { start, end }, firstRow });
  });
  if (w !== wanted.length) throw new PageFault('its offset index lacks rows');
  const first = Number(locations[0]?.field_1 ?? chunk.start);
  return { dictionary: first > chunk.start ? { start: chunk.start, end: first } : null, pages, indexed: true };
}

/** A thrift struct at `offset` and where it ends. */
export function thriftAt(bytes: Uint8Array, offset: number): { value: object; end: number } {
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset };
  const value: object = deserializeTCompactProtocol(reader);
  return { value, end: reader.offset };
}

function decodeLeaf(
  plan: PagePlan,
  parts: readonly Uint8Array[],
  chunk: Chunk,
  node: FileNode,
  rowCount: number,
  wanted: WantedRows,
): LeafData {
  const out: DataPage[] = [];
  let dictionaryPage: { header: PageHeader; body: Uint8Array } | null = null;
  let dictionary: LeafValues | null = null;
  const useDictionary = (): LeafValues | null => {
    if (dictionary === null && dictionaryPage !== null)
      dictionary = readDictionary(dictionaryPage.header, dictionaryPage.body, chunk.meta.codec, node);
    return dictionary;
  };
  const skip = plan.dictionary === null ? 0 : 1;
  const dictionaryBytes = parts[0];
  if (skip === 1 && dictionaryBytes !== undefined) dictionaryPage = pageAt(dictionaryBytes, 0);
  plan.pages.forEach((page, i) => {
    const bytes = parts[i + skip] ?? new Uint8Array(0);
    let row = page.firstRow;
    for (let at = 0; at < bytes.byteLength && (plan.indexed || row < rowCount);) {
      const { header, body, end } = pageAt(bytes, at);
      at = end;
      if (header.kind === 'dictionary') dictionaryPage = { header, body };
      if (header.kind !== 'data') continue;
      const known = node.maxRep === 0 ? header.valueCount : header.rowCount;
      if (wanted !== null && known !== null && !anyWanted(wanted, row, row + known)) {
        row += known;
        continue;
      }
      // Outside lists an entry is a row, so that only the wanted values need be looked at.
      const picks = wanted !== null && node.maxRep === 0 ? wantedBetween(wanted, row, row + header.valueCount) : null;
      const data = readDataPage(header, body, chunk.meta.codec, node, useDictionary, picks);
      out.push(wanted === null || picks !== null ? data : selectRows(data, row, wanted));
      row += picks === null ? data.rowCount : header.valueCount;
    }
    if (!plan.indexed && row !== rowCount)
      throw new PageFault(`column ${node.name} has ${row} of its row group's ${rowCount} rows`);
  });
  return joinPages(out, node);
}

function pageAt(bytes: Uint8Array, at: number): { header: PageHeader; body: Uint8Array; end: number } {
  const { value, end: bodyStart } = thriftAt(bytes, at);
  const header = headerOf(value as ThriftHeader);
  const end = bodyStart + header.compressedBytes;
  if (header.compressedBytes < 0 || end > bytes.byteLength) throw new PageFault('a page runs past its column chunk');
  const body = bytes.subarray(bodyStart, end);
  if (header.crc !== null && crc32(body) !== header.crc >>> 0) throw new PageFault('a page fails its checksum');
  return { header, body, end };
}

type ThriftHeader = Readonly<Record<string, unknown>>;

function headerOf(raw: ThriftHeader): PageHeader {
  const number = (from: ThriftHeader | undefined, field: string): number => {
    const value = from?.[field];
    if (typeof value !== 'number') throw new PageFault('a page header lacks a field');
    return value;
  };
  const type = number(raw, 'field_1');
  const crc = raw['field_4'];
  const base = {
    plainBytes: number(raw, 'field_2'),
    compressedBytes: number(raw, 'field_3'),
    crc: typeof crc === 'number' ? crc : null,
    v2: null,
    rowCount: null,
  };
  const inner = raw[{ 0: 'field_5', 2: 'field_7', 3: 'field_8' }[type] ?? ''] as ThriftHeader | undefined;
  const rle = { defRle: true, repRle: true };
  if (type === 0)
    return {
      ...base,
      kind: 'data',
      valueCount: number(inner, 'field_1'),
      encoding: number(inner, 'field_2'),
      defRle: number(inner, 'field_3') === 3,
      repRle: number(inner, 'field_4') === 3,
    };
  if (type === 2)
    return {
      ...base,
      kind: 'dictionary',
      valueCount: number(inner, 'field_1'),
      encoding: number(inner, 'field_2'),
      ...rle,
    };
  if (type !== 3) return { ...base, kind: 'other', valueCount: 0, encoding: 0, ...rle };
  return {
    ...base,
    kind: 'data',
    valueCount: number(inner, 'field_1'),
    rowCount: number(inner, 'field_3'),
    encoding: number(inner, 'field_4'),
    ...rle,
    v2: {
      defBytes: number(inner, 'field_5'),
      repBytes: number(inner, 'field_6'),
      compressed: inner?.['field_7'] !== false,
    },
  };
}

function anyWanted(wanted: Int32Array, from: number, to: number): boolean {
  const i = lowerBound(wanted, from);
  return i < wanted.length && (wanted[i] ?? 0) < to;
}

/** Wanted rows from `from` up to `to`, relative to `from`; null when that is every row. */
function wantedBetween(wanted: Int32Array, from: number, to: number): Int32Array | null {
  const rows = wanted.slice(lowerBound(wanted, from), lowerBound(wanted, to));
  if (rows.length === to - from) return null;
  for (let i = 0; i < rows.length; i++) rows[i] = (rows[i] ?? 0) - from;
  return rows;
}

function lowerBound(sorted: Int32Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if ((sorted[mid] ?? 0) < value) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** Keeps the wanted rows of a page whose first row is `firstRow` of the row group. */
function selectRows(page: DataPage, firstRow: number, wanted: Int32Array): DataPage {
  const from = lowerBound(wanted, firstRow);
  const to = lowerBound(wanted, firstRow + page.rowCount);
  if (to - from === page.rowCount) return page;
  const { defs, reps, maxDef } = page;
  const keptDefs = defs === null ? null : new Uint8Array(defs.length);
  const keptReps = reps === null ? null : new Uint8Array(reps.length);
  const dense = new Int32Array(page.count);
  let row = firstRow - 1;
  let value = 0;
  let entries = 0;
  let values = 0;
  let w = from;
  let keep = false;
  for (let i = 0; i < page.count; i++) {
    if (reps === null || reps[i] === 0) {
      row++;
      while (w < to && (wanted[w] ?? 0) < row) w++;
      if (w >= to) break;
      keep = wanted[w] === row;
    }
    const present = defs === null || defs[i] === maxDef;
    if (keep) {
      if (keptDefs !== null && defs !== null) keptDefs[entries] = defs[i] ?? 0;
      if (keptReps !== null && reps !== null) keptReps[entries] = reps[i] ?? 0;
      if (present) dense[values++] = value;
      entries++;
    }
    if (present) value++;
  }
  return {
    count: entries,
    rowCount: to - from,
    maxDef,
    defs: keptDefs?.subarray(0, entries) ?? null,
    reps: keptReps?.subarray(0, entries) ?? null,
    values: gatherValues(page.values, dense.subarray(0, values)),
  };
}

/** Pages, or the same leaf of several row groups, one behind the other. */
export function joinPages(pages: readonly LeafData[], node: FileNode): LeafData {
  const only = pages[0];
  if (pages.length === 1 && only !== undefined) return only;
  let count = 0;
  for (const page of pages) count += page.count;
  const levels = (pick: (page: LeafData) => Uint8Array | null, full: number): Uint8Array | null => {
    if (pages.every((page) => pick(page) === null)) return null;
    const out = new Uint8Array(count);
    let at = 0;
    for (const page of pages) {
      const part = pick(page);
      if (part === null) out.fill(full, at, at + page.count);
      else out.set(part.subarray(0, page.count), at);
      at += page.count;
    }
    return out;
  };
  return {
    count,
    defs: levels((page) => page.defs, node.maxDef),
    reps: levels((page) => page.reps, 0),
    values: concatValues(
      pages.map((page) => page.values),
      node,
    ),
  };
}
