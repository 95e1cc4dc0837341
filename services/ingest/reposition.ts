/**
 * Sets a table to another place of the log, in one commit without rows. That is the second half of a table's repair after its
 * log was lost or cut: first the reader begins to read the table again (a TRUNCATE, then every row), then the table goes on
 * from where the log ended before that. In this order a crash in between leaves the table stopped, never past the gap.
 */
import type { MergeBatch, MergeTable } from '../../lakehouse/merge/merge.ts';
import { LogError } from '../log/log.ts';
import type { LogReader } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { progressBounds, readMarks } from '../stream/sources/mark-feed.ts';
import type { Checkpoint } from '../stream/checkpoint.ts';
import { createColumnBuilder } from './columns/create-builder.ts';
import type { TablePlan } from './table-plan.ts';
import { committedPartitions, readPosition, txnsOf } from './txn-ids.ts';
import type { StreamPosition, TopicIdentity } from './txn-ids.ts';

/** Where the log ends, as one table sees it: what is read behind this place is not read twice, and nothing of it is skipped. */
export interface LogTail {
  /** Newest mark; older ones may number a topic that is gone. 0 = there is none. */
  readonly markSequence: number;
  readonly progressOffset: bigint;
  readonly nextOffsets: ReadonlyMap<number, LogOffset>;
  /** LSN up to which the table holds everything, where that is known otherwise than by what it had. */
  readonly lsn?: bigint;
}

/** Marks that are looked through from the end: control records take offsets. */
const LAST_OFFSETS = 1_000n;

export async function readLogTail(reader: LogReader, name: string, topic: string): Promise<LogTail> {
  const bounds = await progressBounds(reader, name);
  let [markSequence, progressOffset] = [0, 0n];
  if (bounds !== null && bounds.end > bounds.earliest) {
    const near = bounds.end - LAST_OFFSETS;
    await readMarks({
      reader,
      name,
      from: (near > bounds.earliest ? near : bounds.earliest) as LogOffset,
      to: bounds.end,
      onMark: (mark, offset) => {
        [markSequence, progressOffset] = [mark.sequence, offset];
        return Promise.resolve();
      },
    });
  }
  // Behind the marks: what a later mark says is at least this far.
  return { markSequence, progressOffset, nextOffsets: await endsOf(reader, topic) };
}

/** A topic that was deleted and is not made again yet begins at 0: the reader makes it when it reads the table again. */
async function endsOf(reader: LogReader, topic: string): Promise<ReadonlyMap<number, LogOffset>> {
  try {
    const bounds = await reader.bounds(topic);
    return new Map([...bounds].map(([partition, { end }]) => [partition, end]));
  } catch (error) {
    if (error instanceof LogError && error.code === 'LOG_TOPIC_MISSING') return new Map([[0, 0n as LogOffset]]);
    throw error;
  }
}

export interface RepositionOptions {
  readonly name: string;
  readonly topicName: string;
  readonly topic: TopicIdentity;
  readonly table: MergeTable;
  readonly plan: TablePlan;
  readonly checkpoint: Checkpoint;
  readonly tail: LogTail;
  readonly nowMs: number;
}

export async function reposition(options: RepositionOptions): Promise<void> {
  const { name, table, tail, nowMs, checkpoint } = options;
  const txnVersion = (appId: string): Promise<bigint | null> => table.txnVersion(appId);
  // What the tail does not name was in a topic that is gone, and begins anew in the one that comes.
  const gone = (await committedPartitions(txnVersion, name)).map((partition) => [partition, 0n as LogOffset] as const);
  const nextOffsets = new Map([...gone, ...tail.nextOffsets]);
  /** Null: the table has no batch of this pipeline. */
  const stood = await readPosition(txnVersion, name, nextOffsets.keys());
  const batchId = stood === null ? 0n : stood.batchId + 1n;
  const position: StreamPosition = {
    epoch: stood?.epoch ?? 1,
    lsn: tail.lsn ?? stood?.lsn ?? 0n,
    markSequence: tail.markSequence,
    progressOffset: tail.progressOffset,
    nextOffsets,
    holdBack: new Map(),
  };
  // A place that Spark's form of the checkpoint knows as a batch like any other.
  await checkpoint.replacePlan({
    batchId,
    timestampMs: nowMs,
    topic: options.topicName,
    from: nextOffsets,
    to: nextOffsets,
    conf: { 'sluice.mark': String(tail.markSequence), 'sluice.progress': String(tail.progressOffset) },
  });
  const prepared = await table.prepare(withoutRows(options.plan));
  await table.commit(prepared, {
    txns: txnsOf(name, batchId, position, options.topic),
    info: { 'sluice.batch': String(batchId), 'sluice.repositioned': 'true', 'sluice.mark': String(tail.markSequence) },
    timestampMs: nowMs,
  });
  await checkpoint.writeCommit(batchId);
}

function withoutRows({ schema, keyColumns }: TablePlan): MergeBatch {
  return {
    rowCount: 0,
    schema,
    columns: schema.fields.map(({ type }) => createColumnBuilder(type).finish()),
    keyColumns,
    ops: new Uint8Array(0),
    absent: schema.fields.map(() => null),
    epoch: new Int32Array(0),
    lsn: new BigUint64Array(0),
    ord: new Int32Array(0),
    truncate: null,
  };
}
