import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import type { LogOffset } from '../log/position.ts';
import { openCheckpoint } from '../stream/checkpoint.ts';
import { reposition, type LogTail } from './reposition.ts';
import type { TablePlan } from './table-plan.ts';
import { readPosition } from './txn-ids.ts';

const plan = {
  schema: { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: false, metadata: {} }] },
  keyColumns: ['id'],
} as unknown as TablePlan;
const offsets = (...next: number[]): ReadonlyMap<number, LogOffset> =>
  new Map(next.map((offset, partition) => [partition, BigInt(offset) as LogOffset]));

test('a table moves to the log’s end; partitions of a topic that is gone begin anew, all of them', async () => {
  const indexDir = mkdtempSync(join(tmpdir(), 'sluice-reposition-'));
  const store = createMemoryStore();
  const table = await openMergeTable({ store, indexDir });
  try {
    const move = (tail: Pick<LogTail, 'markSequence' | 'nextOffsets'>): Promise<void> =>
      reposition({
        name: 'shop',
        topicName: 'shop.public.t',
        topic: { logId: 'log', topicId: 'topic' },
        table,
        plan,
        checkpoint: openCheckpoint(store, '_sluice/checkpoints/public.t', () => 'id'),
        tail: { progressOffset: 0n, ...tail },
        nowMs: 0,
      });
    const stands = () => readPosition((appId) => table.txnVersion(appId), 'shop', [0, 1, 2]);
    await move({ markSequence: 7, nextOffsets: offsets(1900, 1867) });
    expect(await stands()).toMatchObject({ batchId: 0n, markSequence: 7, nextOffsets: offsets(1900, 1867) });
    // Deleted and not made again yet: of its partitions nobody can tell how many there were.
    await move({ markSequence: 9, nextOffsets: offsets(0) });
    expect(await stands()).toMatchObject({ batchId: 1n, markSequence: 9, nextOffsets: offsets(0, 0) });
    // Made again with more of them.
    await move({ markSequence: 12, nextOffsets: offsets(4, 5, 6) });
    expect(await stands()).toMatchObject({ batchId: 2n, markSequence: 12, nextOffsets: offsets(4, 5, 6) });
  } finally {
    await table.close();
    rmSync(indexDir, { recursive: true });
  }
});
