/**
 * What a switch to another table would change: rows by key, cell by cell, of two versions that stand at one place in the log.
 * Sums over ranges of the key's hash first; rows are only kept in hand of ranges whose sums differ.
 */
import { scan } from '../../../lakehouse/read/scan.ts';
import type { ColumnBatch } from '../../../lakehouse/table/column.ts';
import type { StructField } from '../../../lakehouse/table/schema.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import {
  addToBucket,
  bucketOf,
  compareBuckets,
  groupBuckets,
  rowHash,
  type BucketSums,
  type BucketTotals,
} from '../verify/buckets.ts';
import { cellText, frame } from '../verify/canonical-lake.ts';

export interface ColumnChange {
  readonly column: string;
  readonly change: 'added' | 'dropped' | 'type';
  readonly before: string | null;
  readonly after: string | null;
}

export interface RowSample {
  readonly kind: 'added' | 'removed' | 'changed';
  /** The key's columns as text. */
  readonly key: readonly string[];
  /** Of a changed row: the columns that differ, with the octets of each value (null = NULL). Values are never shown. */
  readonly cells: readonly { readonly column: string; readonly before: number | null; readonly after: number | null }[];
}

export interface TableDiff {
  readonly rowsBefore: number;
  readonly rowsAfter: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** Rows in which each column differs. */
  readonly byColumn: ReadonlyMap<string, number>;
  readonly columns: readonly ColumnChange[];
  readonly samples: readonly RowSample[];
}

export interface DiffOptions {
  /** Lake names of the key's columns. */
  readonly keyColumns: readonly string[];
  /** Samples of each kind. */
  readonly samplesMax: number;
  readonly buckets?: number;
  /** Rows of both sides in hand. */
  readonly rowsMax?: number;
}

const BUCKETS = 4096;
const ROWS_MAX = 100_000;

export async function diffTables(before: Snapshot, after: Snapshot, options: DiffOptions): Promise<TableDiff> {
  const { columns, common } = compareSchemas(before, after);
  const buckets = options.buckets ?? BUCKETS;
  const left = tableRows(before, common, options.keyColumns);
  const right = tableRows(after, common, options.keyColumns);
  const sums = [await sumsOf(left, buckets), await sumsOf(right, buckets)] as const;
  const diff: Counted = { added: 0, removed: 0, changed: 0, byColumn: new Map(), samples: [] };
  const differing = compareBuckets(sums[0], sums[1]);
  for (const group of groupBuckets(differing, sums, options.rowsMax ?? ROWS_MAX))
    compareRows(
      await rowsOf(left, (key) => group.has(bucketOf(key, buckets))),
      await rowsOf(right, (key) => group.has(bucketOf(key, buckets))),
      common,
      diff,
      options.samplesMax,
    );
  return { rowsBefore: sums[0].rows, rowsAfter: sums[1].rows, columns, ...diff };
}

interface Counted {
  added: number;
  removed: number;
  changed: number;
  readonly byColumn: Map<string, number>;
  readonly samples: RowSample[];
}

function compareSchemas(before: Snapshot, after: Snapshot): { columns: ColumnChange[]; common: string[] } {
  const own = ({ name }: StructField): boolean => !name.startsWith('_sluice_');
  const right = new Map(after.schema.fields.filter(own).map((field) => [field.name.toLowerCase(), field]));
  const columns: ColumnChange[] = [];
  const common: string[] = [];
  for (const field of before.schema.fields.filter(own)) {
    const other = right.get(field.name.toLowerCase());
    right.delete(field.name.toLowerCase());
    const type = typeText(field);
    if (other === undefined) {
      columns.push({ column: field.name, change: 'dropped', before: type, after: null });
      continue;
    }
    common.push(field.name);
    if (typeText(other) !== type)
      columns.push({ column: field.name, change: 'type', before: type, after: typeText(other) });
  }
  for (const field of right.values())
    columns.push({ column: field.name, change: 'added', before: null, after: typeText(field) });
  return { columns, common };
}

const typeText = ({ type }: StructField): string => (typeof type === 'string' ? type : JSON.stringify(type));

interface TableRows {
  /** `cells`: one framed text a common column. */
  each(visit: (key: string, cells: () => string[]) => void): Promise<void>;
}

function tableRows(snapshot: Snapshot, common: readonly string[], keyColumns: readonly string[]): TableRows {
  const fields = new Map(snapshot.schema.fields.map((field) => [field.name.toLowerCase(), field]));
  const names = common.map((name) => fields.get(name.toLowerCase())?.name ?? name);
  const keys = keyColumns.map((name) => common.findIndex((other) => other.toLowerCase() === name.toLowerCase()));
  return {
    async each(visit) {
      for await (const batch of scan(snapshot, { columns: names })) {
        const read = readersOf(batch, names, fields);
        for (let row = 0; row < batch.rowCount; row++) {
          let key = '';
          for (const index of keys) key += frame(read[index]?.(row) ?? null);
          visit(key, () => read.map((cell) => frame(cell(row))));
        }
      }
    },
  };
}

function readersOf(
  batch: ColumnBatch,
  names: readonly string[],
  fields: ReadonlyMap<string, StructField>,
): ((row: number) => string | null)[] {
  return names.map((name) => {
    const column = batch.columns[batch.names.indexOf(name)];
    const type = fields.get(name.toLowerCase())?.type ?? 'string';
    return column === undefined ? () => null : cellText(column, type);
  });
}

async function sumsOf(table: TableRows, buckets: number): Promise<BucketSums> {
  const byBucket: BucketTotals = new Map();
  let rows = 0;
  await table.each((key, cells) => {
    addToBucket(byBucket, bucketOf(key, buckets), 1, rowHash(cells().join('')));
    rows++;
  });
  return { rows, byBucket };
}

/** Long values are kept by their length and hash: a row in hand stays small. */
const KEPT_CHARS = 48;
const brief = (cell: string): string =>
  cell.length <= KEPT_CHARS ? cell : `${cell.slice(0, cell.indexOf(':') + 1)}#${rowHash(cell)}`;

async function rowsOf(table: TableRows, wanted: (key: string) => boolean): Promise<Map<string, readonly string[]>> {
  const rows = new Map<string, readonly string[]>();
  await table.each((key, cells) => {
    if (wanted(key)) rows.set(key, cells().map(brief));
  });
  return rows;
}

function compareRows(
  left: ReadonlyMap<string, readonly string[]>,
  right: ReadonlyMap<string, readonly string[]>,
  common: readonly string[],
  diff: Counted,
  samplesMax: number,
): void {
  const taken = { added: 0, removed: 0, changed: 0 };
  for (const { kind } of diff.samples) taken[kind]++;
  const sample = (kind: RowSample['kind'], key: string, cells: RowSample['cells']): void => {
    if (taken[kind]++ < samplesMax) diff.samples.push({ kind, key: keyParts(key), cells });
  };
  for (const [key, cells] of left) {
    const other = right.get(key);
    if (other === undefined) {
      diff.removed++;
      sample('removed', key, []);
      continue;
    }
    const differs = cells.flatMap((cell, at) => (cell === other[at] ? [] : [at]));
    if (differs.length === 0) continue;
    diff.changed++;
    for (const at of differs) {
      const name = common[at] ?? '';
      diff.byColumn.set(name, (diff.byColumn.get(name) ?? 0) + 1);
    }
    const sizes = differs.map((at) => ({
      column: common[at] ?? '',
      before: octetsOf(cells[at]),
      after: octetsOf(other[at]),
    }));
    sample('changed', key, sizes);
  }
  for (const key of right.keys())
    if (!left.has(key)) {
      diff.added++;
      sample('added', key, []);
    }
}

function octetsOf(cell: string | undefined): number | null {
  return cell === undefined || cell === '~' ? null : Number(cell.slice(0, cell.indexOf(':')));
}

/** The framed cells of a key, one text each. */
function keyParts(key: string): string[] {
  const bytes = Buffer.from(key);
  const parts: string[] = [];
  for (let at = 0; at < bytes.length;) {
    if (bytes[at] === 0x7e) {
      parts.push('NULL');
      at++;
      continue;
    }
    const colon = bytes.indexOf(0x3a, at);
    const octets = Number(bytes.toString('latin1', at, colon));
    parts.push(bytes.toString('utf8', colon + 1, colon + 1 + octets));
    at = colon + 1 + octets;
  }
  return parts;
}
