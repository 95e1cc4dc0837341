import { describe, expect, test } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import type { LogOffset } from '../log/position.ts';
import { openCheckpoint } from './checkpoint.ts';
import type { Cut, Planned } from './plan.ts';
import type { StreamBatch } from './sink.ts';
import { createQuery, type Query } from './stream.ts';

const cut = (sequence: number, next: bigint): Cut => ({
  sequence,
  epoch: 1,
  nextOffsets: new Map([[0, next as LogOffset]]),
  totalBytes: next,
  totalRecords: next,
});

interface Seen {
  readonly query: Query;
  readonly cuts: Cut[];
  /** Per batch: its end, and the end of what was begun for it. */
  readonly built: [bigint, bigint | null][];
  readonly released: bigint[];
  begun: bigint[];
  failNext: boolean;
}

function queryOver(cuts: Cut[]): Seen {
  const built: [bigint, bigint | null][] = [];
  const released: bigint[] = [];
  const endOf = ({ to }: Pick<Planned, 'to'>): bigint => to.get(0) ?? 0n;
  const query: Query = createQuery<StreamBatch, { end: bigint; release(): void }>({
    name: 'q',
    runId: 'r',
    topic: 't',
    checkpoint: openCheckpoint(createMemoryStore(), 'c', () => 'id'),
    now: () => 0,
    sourceDescription: '',
    sinkDescription: '',
    limits: { maxOffsetsPerTrigger: 10, batchBytesMax: 1_000 },
    cutsAfter: (sequence) => seen.cuts.filter((known) => known.sequence > sequence),
    latestOffsets: () => new Map(),
    committed: null,
    describe: async (planned) => ({ 'sluice.mark': String(planned?.cut.sequence ?? 0) }),
    revise: null,
    hasLeftovers: () => false,
    begin: async (planned) => {
      const end = endOf(planned);
      seen.begun.push(end);
      return { end, release: () => void released.push(end) };
    },
    build: async (plan, begun) => {
      begun?.release();
      built.push([endOf(plan), begun?.end ?? null]);
      return { rowCount: 0 } as StreamBatch;
    },
    sink: async () => {
      query.beginNext();
      if (seen.failNext) throw new Error('the sink failed');
    },
    failpoint: () => undefined,
    onProgress: () => undefined,
  });
  const seen: Seen = { query, cuts, built, released, begun: [], failNext: false };
  return seen;
}

describe('the batch behind the one in the sink', () => {
  test('is begun when a full one waits, and built of what was begun', async () => {
    const seen = queryOver([cut(1, 10n), cut(2, 20n), cut(3, 22n)]);
    for (let i = 0; i < 3; i++) await seen.query.step(null);
    expect(seen.built).toEqual([
      [10n, null],
      [20n, 20n],
      // Two offsets are no full batch.
      [22n, null],
    ]);
    expect([seen.begun, seen.released]).toEqual([[20n], [20n]]);
  });

  test('stays as it was begun, though more has come', async () => {
    const seen = queryOver([cut(1, 10n), cut(2, 16n)]);
    await seen.query.step(null);
    seen.cuts.push(cut(3, 20n));
    await seen.query.step(null);
    await seen.query.step(null);
    expect(seen.built).toEqual([
      [10n, null],
      [16n, 16n],
      [20n, null],
    ]);
  });

  test('does not pass the barrier of the batch before, and counts for nothing behind one that it passes', async () => {
    const seen = queryOver([cut(1, 10n), cut(2, 20n), cut(3, 30n)]);
    await seen.query.step(1);
    expect(seen.begun).toEqual([]);
    await seen.query.step(null);
    expect(seen.begun).toEqual([30n]);
    expect(await seen.query.step(2)).toBe('idle');
    await seen.query.step(null);
    expect(seen.built.at(-1)).toEqual([30n, 30n]);
  });

  test('is dropped with a batch that failed, and when the query is opened anew', async () => {
    const seen = queryOver([cut(1, 10n), cut(2, 20n)]);
    seen.failNext = true;
    await expect(seen.query.step(null)).rejects.toThrow('the sink failed');
    seen.failNext = false;
    await seen.query.step(null);
    expect(seen.released).toEqual([20n]);
    await seen.query.open();
    await seen.query.step(null);
    expect(seen.built.slice(-2)).toEqual([
      [10n, null],
      [20n, null],
    ]);
    expect(seen.released).toEqual([20n, 20n]);
  });
});
