/** The lake's side of verify: sums, images and rows of one table version, in canonical text. Memory holds one row group. */
import { lakeColumnName } from '../../../contracts/engine/lake-name.ts';
import { LSN_COLUMN, ORD_COLUMN } from '../../../lakehouse/merge/position-columns.ts';
import { scan } from '../../../lakehouse/read/scan.ts';
import type { ColumnBatch } from '../../../lakehouse/table/column.ts';
import type { DeltaType } from '../../../lakehouse/table/schema.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import type { ColumnShape, Replaced, TableShape } from '../../log/event.ts';
import { addToBucket, bucketOf, inSample, rowHash, type BucketSums, type BucketTotals } from './buckets.ts';
import { cellText, frame } from './canonical-lake.ts';
import { ROW_HASH } from '../../log/bag-key.ts';
import { addImage, imageOf, type Images } from './row-image.ts';
import type { LakeSnapshot } from './verify.ts';

export interface Comparable {
  /** The shape cut down to the columns that both sides have as they are. */
  readonly shape: TableShape;
  /** Columns that the lake holds as PostgreSQL's text. */
  readonly asText: ReadonlySet<string>;
  /** Columns of the source that are not compared, with the reason. */
  readonly left: readonly { readonly column: string; readonly reason: string }[];
}

/**
 * A column that the lake has not got yet is NULL in all its rows there, unless the contract keeps it out (`keepsOut`).
 * `changed`: what privacy rules put in the values' place on the way; null as a value: it cannot be told (a hash, and no key is
 * at hand).
 */
export function comparableColumns(
  shape: TableShape,
  snapshot: Snapshot,
  changed: ReadonlyMap<string, Replaced | null>,
  keepsOut: (column: string) => boolean,
): Comparable {
  const types = typesByName(snapshot);
  const left: { column: string; reason: string }[] = [];
  const columns: ColumnShape[] = [];
  const asText = new Set<string>();
  for (const column of shape.columns) {
    const type = types.get(lakeColumnName(column.name).toLowerCase());
    const replaced = changed.get(column.name);
    if (replaced === 'drop') left.push({ column: column.name, reason: 'dropped by its piiAction' });
    else if (type === undefined && keepsOut(column.name))
      left.push({ column: column.name, reason: 'kept out of the lake by the contract' });
    else if (replaced === null)
      left.push({ column: column.name, reason: 'hashed by its piiAction, and privacy.key is not set here' });
    else {
      const { replaced: _logged, ...own } = column;
      columns.push(replaced === undefined ? own : { ...own, replaced });
      if (type === 'string') asText.add(column.name);
    }
  }
  return { shape: { ...shape, columns }, asText, left };
}

export function lakeSnapshot(snapshot: Snapshot, shape: TableShape): LakeSnapshot {
  const names = new Map(snapshot.schema.fields.map((field) => [field.name.toLowerCase(), field.name]));
  const types = typesByName(snapshot);
  const lakeNames = shape.columns.map((column) => {
    const folded = lakeColumnName(column.name).toLowerCase();
    return names.get(folded) ?? null;
  });
  const present = lakeNames.filter((name) => name !== null);
  const soft = names.get('_sluice_deleted');
  /** A table without key: its rows are known by the hash of what they hold, and counted. */
  const bag = shape.columns.every(({ keyPosition }) => keyPosition === 0);
  const keyIndexes = shape.columns
    .map((column, index) => ({ index, position: column.keyPosition }))
    .filter(({ position }) => position > 0)
    .toSorted((a, b) => a.position - b.position)
    .map(({ index }) => index);

  /** Where the row's last event stands in the source's order. */
  const positions = [LSN_COLUMN, ORD_COLUMN].flatMap((name) => names.get(name) ?? []);

  /** Calls `visit` with the canonical key and functions that make the row's text and say which event wrote it. */
  async function eachRow(
    visit: (key: string, text: () => string, event: () => string | undefined) => void,
  ): Promise<void> {
    const further = [...(soft === undefined ? [] : [soft]), ...positions, ...(bag ? [ROW_HASH] : [])];
    const columns = [...present, ...further];
    for await (const batch of scan(snapshot, { columns })) {
      const readers = cellReaders(batch, types);
      const deleted = soft === undefined ? null : (readers[present.length] ?? null);
      const hash = bag ? (readers[columns.length - 1] ?? null) : null;
      const firstPosition = present.length + (soft === undefined ? 0 : 1);
      const events = readers.slice(firstPosition, firstPosition + positions.length);
      let place = 0;
      const read = lakeNames.map((name) => (name === null ? null : (readers[place++] ?? null)));
      for (let row = 0; row < batch.rowCount; row += 1) {
        if (deleted?.(row) === 't') continue;
        let key = hash === null ? '' : frame(hash(row));
        for (const index of keyIndexes) key += frame(read[index]?.(row) ?? null);
        visit(
          key,
          () => {
            let text = '';
            for (let i = 0; i < lakeNames.length; i += 1) text += frame(read[i]?.(row) ?? null);
            return text;
          },
          () => (events.length === 0 ? undefined : events.map((cell) => cell(row) ?? '').join(' ')),
        );
      }
    }
  }

  async function pick(wanted: (key: string) => boolean): Promise<Images> {
    const images: Images = new Map();
    await eachRow((key, text, event) => {
      if (!wanted(key)) return;
      addImage(images, key, imageOf(text(), event()));
    });
    return images;
  }

  return {
    version: snapshot.version,
    async sums(buckets, sample) {
      const byBucket: BucketTotals = new Map();
      let rows = 0;
      await eachRow((key, text) => {
        const bucket = bucketOf(key, buckets);
        if (!inSample(sample, bucket)) return;
        addToBucket(byBucket, bucket, 1, rowHash(text()));
        rows += 1;
      });
      return { rows, byBucket } satisfies BucketSums;
    },
    images: (buckets, wanted) => pick((key) => wanted.has(bucketOf(key, buckets))),
    rows(keys) {
      const wanted = new Set(keys);
      return pick((key) => wanted.has(key));
    },
    async texts(keys) {
      const wanted = new Set(keys);
      const texts = new Map<string, string>();
      await eachRow((key, text) => {
        if (wanted.has(key)) texts.set(key, text());
      });
      return texts;
    },
  };
}

function cellReaders(batch: ColumnBatch, types: ReadonlyMap<string, DeltaType>): ((row: number) => string | null)[] {
  return batch.columns.map((column, index) =>
    cellText(column, types.get((batch.names[index] ?? '').toLowerCase()) ?? 'string'),
  );
}

function typesByName(snapshot: Snapshot): Map<string, DeltaType> {
  return new Map(snapshot.schema.fields.map((field) => [field.name.toLowerCase(), field.type]));
}
