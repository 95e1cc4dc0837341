/**
 * Too many bad rows are a broken producer, not bad rows: the table stops before it swallows them. Looked at in the batch alone
 * and over a window of the batches before it, for small batches never hold enough rows to tell a trend.
 */
import { StreamError } from '../stream/stream-error.ts';
import type { IngestBatch } from './ingest-batch.ts';

/** Rows below which the wire stays silent: one bad row of three is no trend. */
const ROWS_MIN = 100;
/** As many of the newest rows as the window holds, to the next whole batch. */
const WINDOW_ROWS = 1000;

type Counted = Pick<IngestBatch, 'schemaName' | 'tableName' | 'rowCount' | 'tablePlan'> & {
  readonly parked: { readonly length: number };
};

export interface TripWire {
  /** Before the batch is committed. @throws StreamError CONTRACT_FAILED */
  check(batch: Counted): void;
  /** Behind its commit. */
  passed(batch: Counted): void;
}

export function createTripWire(): TripWire {
  let window: { readonly rows: number; readonly parked: number }[] = [];
  let contract = '';
  const of = ({ rowCount, parked }: Counted): (typeof window)[number] => ({
    rows: rowCount + parked.length,
    parked: parked.length,
  });
  return {
    check(batch) {
      const {
        maxQuarantineRatio: limit,
        contract: { hash },
      } = batch.tablePlan;
      // What another contract held back says nothing of this one.
      if (hash !== contract) window = [];
      contract = hash;
      if (limit === null) return;
      const alone = of(batch);
      const all = [...window, alone];
      const sums = { rows: sum(all.map(({ rows }) => rows)), parked: sum(all.map(({ parked }) => parked)) };
      // A batch without a bad row is never the one that is stopped.
      const over = (count: typeof alone): boolean =>
        alone.parked > 0 && count.rows >= ROWS_MIN && count.parked / count.rows > limit;
      if (over(alone)) throw tripped(batch, alone, 'of one batch', limit);
      if (over(sums)) throw tripped(batch, sums, 'in the last batches', limit);
    },
    passed(batch) {
      window.push(of(batch));
      while (sum(window.slice(1).map(({ rows }) => rows)) >= WINDOW_ROWS) window.shift();
    },
  };
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

function tripped(
  { schemaName, tableName }: Counted,
  { rows, parked }: { readonly rows: number; readonly parked: number },
  where: string,
  limit: number,
): StreamError {
  return new StreamError(
    'CONTRACT_FAILED',
    `${schemaName}.${tableName}: ${parked} of ${rows} rows ${where} violate the contract, more than maxQuarantineRatio ${limit}`,
    'correct the producer or the contract, then resume the table; nothing of this batch was committed',
  );
}
