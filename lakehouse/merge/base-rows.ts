/** Point reads: the stored rows that a batch needs, for columns that its events did not carry and for change files. */
import type { KeyIndex } from '../index/key-index.ts';
import type { ParquetFile } from '../parquet/footer.ts';
import type { AddFile } from '../table/actions.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { concat } from './concat.ts';
import { gather } from './gather.ts';
import { openDataFile, readRows } from './read-rows.ts';

/** Files read side by side. */
const PARALLEL_MAX = 4;
/** Opened files (their footers) remembered. */
const OPENED_MAX = 64;
/** `gather` numbers its sources in a byte. */
const SOURCES_MAX = 250;

export interface Places {
  /** File ordinal and row, for each wanted row. */
  readonly file: Uint32Array;
  readonly row: Uint32Array;
}

export interface BaseRows {
  /** Columns of `fields`, row i from place i. */
  fetch(snapshot: Snapshot, places: Places, fields: readonly StructField[]): Promise<ColumnBatch>;
}

export function baseRowsOver(index: Pick<KeyIndex, 'pathOf'>): BaseRows {
  const opened = new Map<string, Promise<ParquetFile>>();

  function open(snapshot: Snapshot, file: AddFile): Promise<ParquetFile> {
    const known = opened.get(file.path);
    if (known !== undefined) return known;
    for (const oldest of opened.keys()) {
      if (opened.size < OPENED_MAX) break;
      opened.delete(oldest);
    }
    const opening = openDataFile(snapshot, file);
    opened.set(file.path, opening);
    opening.catch(() => opened.delete(file.path));
    return opening;
  }

  return {
    async fetch(snapshot, places, fields) {
      const groups = groupPlaces(places);
      const parts: ColumnBatch[] = [];
      for (let at = 0; at < groups.length; at += PARALLEL_MAX) {
        const turn = groups.slice(at, at + PARALLEL_MAX).map(async (group) => {
          const file = fileOf(snapshot, index.pathOf(group.file));
          return readRows(snapshot, file, await open(snapshot, file), fields, group.rows);
        });
        parts.push(...(await Promise.all(turn)));
      }
      return align(parts, groups, places.file.length, fields);
    },
  };
}

function fileOf(snapshot: Snapshot, path: string | undefined): AddFile {
  const file = path === undefined ? null : snapshot.files.get(path);
  if (file !== null) return file;
  throw new TableError(
    'DATA_FILE_MISSING',
    { table: snapshot.store.uri, version: snapshot.version, ...(path === undefined ? {} : { file: path }) },
    'the key index names a file that is not in the table',
  );
}

interface PlaceGroup {
  readonly file: number;
  /** Distinct rows, ascending. */
  readonly rows: Uint32Array;
  /** For each wanted place of this file: its number, and where in `rows` it stands. */
  readonly wanted: Uint32Array;
  readonly at: Uint32Array;
}

function groupPlaces({ file, row }: Places): PlaceGroup[] {
  const byFile = new Map<number, number[]>();
  for (let i = 0; i < file.length; i++) {
    const list = byFile.get(file[i] ?? 0);
    if (list === undefined) byFile.set(file[i] ?? 0, [i]);
    else list.push(i);
  }
  return [...byFile].map(([ordinal, members]) => {
    members.sort((a, b) => (row[a] ?? 0) - (row[b] ?? 0));
    const rows: number[] = [];
    const at = members.map((member) => {
      const wanted = row[member] ?? 0;
      if (rows.at(-1) !== wanted) rows.push(wanted);
      return rows.length - 1;
    });
    return { file: ordinal, rows: Uint32Array.from(rows), wanted: Uint32Array.from(members), at: Uint32Array.from(at) };
  });
}

function align(
  parts: readonly ColumnBatch[],
  groups: readonly PlaceGroup[],
  count: number,
  fields: readonly StructField[],
): ColumnBatch {
  const columns = fields.map((_, column) => alignColumn(parts, groups, count, column));
  return { rowCount: count, names: fields.map((field) => field.name), columns };
}

function alignColumn(
  parts: readonly ColumnBatch[],
  groups: readonly PlaceGroup[],
  count: number,
  column: number,
): ColumnVector {
  // More files than a gather takes as sources are joined in rounds.
  let sources = parts.map((part) => part.columns[column] as ColumnVector);
  let starts = new Uint32Array(parts.length);
  let sourceOfPart = Uint32Array.from(parts, (_, i) => i);
  while (sources.length > SOURCES_MAX) {
    const joined: ColumnVector[] = [];
    const nextStarts = starts.slice();
    const nextSource = sourceOfPart.slice();
    for (let from = 0; from < sources.length; from += SOURCES_MAX) {
      const slice = sources.slice(from, from + SOURCES_MAX);
      const offsets = slice.reduce<number[]>((sums, source) => [...sums, (sums.at(-1) ?? 0) + source.length], [0]);
      for (let part = 0; part < parts.length; part++) {
        const source = sourceOfPart[part] ?? 0;
        if (source < from || source >= from + slice.length) continue;
        nextStarts[part] = (starts[part] ?? 0) + (offsets[source - from] ?? 0);
        nextSource[part] = joined.length;
      }
      joined.push(concat(slice));
    }
    sources = joined;
    starts = nextStarts;
    sourceOfPart = nextSource;
  }
  const source = new Uint8Array(count);
  const row = new Uint32Array(count);
  groups.forEach((group, part) => {
    for (let i = 0; i < group.wanted.length; i++) {
      const place = group.wanted[i] ?? 0;
      source[place] = sourceOfPart[part] ?? 0;
      row[place] = (starts[part] ?? 0) + (group.at[i] ?? 0);
    }
  });
  return gather(sources, { count, source: sources.length > 1 ? source : null, row });
}
