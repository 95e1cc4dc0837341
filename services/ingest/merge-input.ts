/** A folded batch in the merge writer's language, and the way back from its outcomes to the events. */
import { gather, picksOf } from '../../lakehouse/merge/gather.ts';
import { RowOutcome } from '../../lakehouse/merge/merge.ts';
import type { MergeBatch } from '../../lakehouse/merge/merge.ts';
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { Folded } from './fold.ts';
import type { IngestBatch } from './ingest-batch.ts';

export function mergeInput(batch: IngestBatch, folded: Folded): MergeBatch {
  const { rows } = folded;
  // A batch in which no key repeats and no row fell out is handed on as it is: nothing is copied.
  const untouched = isIdentity(rows, batch.rowCount);
  const picks = picksOf(asUnsigned(rows));
  const columns = batch.columns.map((column, index): ColumnVector => {
    const own = folded.gather[index] ?? null;
    if (own !== null) return gather([column], picksOf(asUnsigned(own)));
    return untouched ? column : gather([column], picks);
  });
  const count = folded.rowCount;
  const positions = untouched ? positionsAsTheyAre(batch) : positionsOf(batch, rows);
  return {
    rowCount: count,
    schema: batch.schema,
    columns,
    keyColumns: batch.keyColumns,
    ops: folded.ops,
    absent: folded.absent,
    ...positions,
    truncate: batch.truncate,
    ...(folded.baseRow === null ? {} : { baseRow: folded.baseRow }),
  };
}

type Positions = Pick<MergeBatch, 'epoch' | 'lsn' | 'ord'>;

function positionsAsTheyAre({ epochs, lsns, ords }: IngestBatch): Positions {
  return { epoch: epochs, lsn: lsns, ord: ords };
}

function positionsOf(batch: IngestBatch, rows: Int32Array): Positions {
  const count = rows.length;
  const epoch = new Int32Array(count);
  const lsn = new BigUint64Array(count);
  const ord = new Int32Array(count);
  // In words: a bigint a row would be an allocation a row.
  const from = new Uint32Array(batch.lsns.buffer, batch.lsns.byteOffset, batch.lsns.length * 2);
  const to = new Uint32Array(lsn.buffer);
  for (let i = 0; i < count; i++) {
    const row = rows[i] ?? 0;
    epoch[i] = batch.epochs[row] ?? 0;
    to[i * 2] = from[row * 2] ?? 0;
    to[i * 2 + 1] = from[row * 2 + 1] ?? 0;
    ord[i] = batch.ords[row] ?? 0;
  }
  return { epoch, lsn, ord };
}

/** Input rows whose absent columns have no base: those that the fold named, and those behind the merge's `missingBase`. */
export function rowsWithoutBase(batch: IngestBatch, folded: Folded, outcomes: Uint8Array): number[] {
  const rows = [...folded.missing];
  for (let output = 0; output < outcomes.length; output++) {
    if (outcomes[output] !== RowOutcome.missingBase) continue;
    // All events that the row was folded from lack the column: otherwise it would have been found in one of them.
    for (let row = folded.rows[output] ?? -1; row >= 0; row = folded.previous[row] ?? -1) {
      rows.push(row);
      if ((batch.otherKeyIds[row] ?? -1) >= 0) break;
    }
  }
  return rows.sort((a, b) => a - b);
}

function isIdentity(rows: Int32Array, length: number): boolean {
  if (rows.length !== length) return false;
  for (let i = 0; i < length; i++) if (rows[i] !== i) return false;
  return true;
}

function asUnsigned(rows: Int32Array): Uint32Array {
  return new Uint32Array(rows.buffer, rows.byteOffset, rows.length);
}
