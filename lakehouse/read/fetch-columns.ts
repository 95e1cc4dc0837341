/**
 * Some columns of a stored Parquet file, as a local file: of the right size, with the footer and the chunks of those columns
 * where they belong, and holes where the rest would be. A reader that wants no other column finds all it looks for.
 */
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readSpans, type ByteSource, type Span } from '../parquet/byte-source.ts';
import { openParquet, type Chunk, type ParquetFile } from '../parquet/footer.ts';

/** Below this a file travels whole: one request instead of several. */
const WHOLE_BYTES = 512 * 1024;
/** A file of which this share is wanted travels whole, too. */
const WHOLE_SHARE = 0.7;

export interface WantedBytes {
  readonly bytes: number;
  /** A row group's at a time; null: the whole file. */
  readonly groups: readonly (readonly Span[])[] | null;
  readonly source: ByteSource;
}

/**
 * @param columns lower-case names of top-level columns; null: all
 * @throws ParquetError; StoreError
 */
export async function wantedBytes(source: ByteSource, columns: ReadonlySet<string> | null): Promise<WantedBytes> {
  const whole = { bytes: source.sizeBytes, groups: null, source };
  if (columns === null || source.sizeBytes <= WHOLE_BYTES) return whole;
  const parquet = await openParquet(source);
  const groups = spansOf(parquet, columns);
  const bytes = groups.flat().reduce((sum, { start, end }) => sum + end - start, 0);
  return bytes > source.sizeBytes * WHOLE_SHARE ? whole : { bytes, groups, source: parquet.source };
}

/** Writes them to `path`. @throws StoreError */
export async function fetchTo(path: string, { source, groups }: WantedBytes): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, 'w');
  try {
    await file.truncate(source.sizeBytes);
    for (const group of groups ?? [[{ start: 0, end: source.sizeBytes }]])
      for (const spans of loadsOf(group)) {
        const parts = await readSpans(source, spans);
        for (const [i, span] of spans.entries()) await file.write(parts[i] ?? new Uint8Array(0), 0, null, span.start);
      }
  } finally {
    await file.close();
  }
}

/** What is in memory at a time. */
const LOAD_BYTES = 16 * 1024 * 1024;

function loadsOf(spans: readonly Span[]): readonly (readonly Span[])[] {
  const loads: Span[][] = [];
  let bytes = Infinity;
  for (const span of spans)
    for (let start = span.start; start < span.end; start += LOAD_BYTES) {
      const piece = { start, end: Math.min(start + LOAD_BYTES, span.end) };
      if (bytes + piece.end - piece.start > LOAD_BYTES) {
        loads.push([]);
        bytes = 0;
      }
      loads.at(-1)?.push(piece);
      bytes += piece.end - piece.start;
    }
  return loads;
}

function spansOf({ root, rowGroups, source }: ParquetFile, columns: ReadonlySet<string>): readonly (readonly Span[])[] {
  const leaves = new Set<number>();
  for (const [i, child] of root.children.entries()) {
    if (!columns.has(child.name.toLowerCase())) continue;
    const next = root.children[i + 1]?.firstLeaf ?? rowGroups[0]?.chunks.length ?? 0;
    for (let leaf = child.firstLeaf; leaf < next; leaf++) leaves.add(leaf);
  }
  const chunks = rowGroups.flatMap((group) => group.chunks);
  // Page indexes, most Bloom filters and the footer stand behind the last chunk.
  const tail = chunks.reduce((end, chunk) => Math.max(end, chunk.end), 4);
  const starts = chunks.map((chunk) => chunk.start).sort((a, b) => a - b);
  const groups: Span[][] = rowGroups.map((group) =>
    group.chunks.flatMap((chunk, leaf) => (leaves.has(leaf) ? [chunk, ...bloomFilter(chunk, starts, tail)] : [])),
  );
  return [
    [
      { start: 0, end: 4 },
      { start: tail, end: source.sizeBytes },
    ],
    ...groups,
  ];
}

/** A Bloom filter that stands between the chunks: up to the next of them. */
function bloomFilter({ meta }: Chunk, starts: readonly number[], tail: number): readonly Span[] {
  const start = Number(meta.bloom_filter_offset ?? 0n);
  if (start <= 0 || start >= tail) return [];
  return [{ start, end: starts.find((next) => next > start) ?? tail }];
}
