/**
 * What a table remembers of the stream, as `txn` actions of its own log: the commit that holds the rows also holds these, so
 * they can never disagree. All versions stay below 2^53; an LSN is therefore kept in two halves.
 */
import { createHash } from 'node:crypto';
import type { LogOffset } from '../log/position.ts';

export interface Txn {
  readonly appId: string;
  readonly version: bigint;
}

/** Batch number, by source epoch: a restored source starts with lower LSNs, and its batches must not look like old ones. */
export const batchAppId = (name: string, epoch: number): string => `${name}/e${epoch}`;
/** Newest epoch that wrote a batch. */
export const epochAppId = (name: string): string => `${name}/epoch`;
/** Next offset of a partition. */
export const offsetAppId = (name: string, partition: number): string => `${name}/offset/${partition}`;
/** Oldest offset of a partition that holds an event awaiting its base; equal to the next offset when none does. */
export const holdAppId = (name: string, partition: number): string => `${name}/hold/${partition}`;
export const lsnHighAppId = (name: string): string => `${name}/lsn.high`;
export const lsnLowAppId = (name: string): string => `${name}/lsn.low`;
/** Sequence of the mark that the batch ended at. */
export const markAppId = (name: string): string => `${name}/mark`;
/** Offset of that mark in `__progress`: where a restart begins to read marks. */
export const progressAppId = (name: string): string => `${name}/progress`;
/** 48 bits of the log's identity: another log's offsets mean nothing here. */
export const logAppId = (name: string): string => `${name}/log`;

/** 48 bits of the topic's identity: it changes when the topic is deleted and made again. Absent where the log does not tell. */
export const topicAppId = (name: string): string => `${name}/topic`;

/** Which log, and which topic in it, the offsets are of. */
export interface TopicIdentity {
  readonly logId: string;
  /** Null: the log does not tell. */
  readonly topicId: string | null;
}

export function logFingerprint(logId: string): bigint {
  return BigInt(createHash('sha256').update(logId).digest().readUIntBE(0, 6));
}

export interface StreamPosition {
  readonly epoch: number;
  readonly lsn: bigint;
  readonly markSequence: number;
  readonly progressOffset: bigint;
  readonly nextOffsets: ReadonlyMap<number, LogOffset>;
  /** Partitions with awaiting events: their oldest offset. */
  readonly holdBack: ReadonlyMap<number, bigint>;
}

export function txnsOf(name: string, batchId: bigint, position: StreamPosition, topic: TopicIdentity): Txn[] {
  const txns: Txn[] = [
    { appId: batchAppId(name, position.epoch), version: batchId },
    { appId: epochAppId(name), version: BigInt(position.epoch) },
    { appId: lsnHighAppId(name), version: position.lsn >> 32n },
    { appId: lsnLowAppId(name), version: position.lsn & 0xffff_ffffn },
    { appId: markAppId(name), version: BigInt(position.markSequence) },
    { appId: progressAppId(name), version: position.progressOffset },
    { appId: logAppId(name), version: logFingerprint(topic.logId) },
  ];
  if (topic.topicId !== null) txns.push({ appId: topicAppId(name), version: logFingerprint(topic.topicId) });
  for (const [partition, next] of position.nextOffsets) {
    txns.push({ appId: offsetAppId(name, partition), version: next });
    txns.push({ appId: holdAppId(name, partition), version: position.holdBack.get(partition) ?? next });
  }
  return txns;
}

export interface CommittedPosition extends StreamPosition {
  readonly batchId: bigint;
  readonly logFingerprint: bigint;
  /** Null: written before topics had one, or by a log that does not tell. */
  readonly topicFingerprint: bigint | null;
}

/** Partitions that a table has an offset of; a topic numbers its own from 0 on without a gap. */
export async function committedPartitions(
  txnVersion: (appId: string) => Promise<bigint | null>,
  name: string,
): Promise<number[]> {
  const partitions: number[] = [];
  while ((await txnVersion(offsetAppId(name, partitions.length))) !== null) partitions.push(partitions.length);
  return partitions;
}

/** Reads back what `txnsOf` wrote; null when the table has no batch of this pipeline. */
export async function readPosition(
  txnVersion: (appId: string) => Promise<bigint | null>,
  name: string,
  partitions: Iterable<number>,
): Promise<CommittedPosition | null> {
  const epoch = await txnVersion(epochAppId(name));
  if (epoch === null) return null;
  const batchId = await txnVersion(batchAppId(name, Number(epoch)));
  if (batchId === null) return null;
  const number = async (appId: string): Promise<bigint> => (await txnVersion(appId)) ?? 0n;
  const nextOffsets = new Map<number, LogOffset>();
  const holdBack = new Map<number, bigint>();
  for (const partition of partitions) {
    const next = await txnVersion(offsetAppId(name, partition));
    if (next === null) continue;
    nextOffsets.set(partition, next as LogOffset);
    const hold = await txnVersion(holdAppId(name, partition));
    if (hold !== null && hold < next) holdBack.set(partition, hold);
  }
  return {
    batchId,
    epoch: Number(epoch),
    lsn: ((await number(lsnHighAppId(name))) << 32n) | (await number(lsnLowAppId(name))),
    markSequence: Number(await number(markAppId(name))),
    progressOffset: await number(progressAppId(name)),
    logFingerprint: await number(logAppId(name)),
    topicFingerprint: await txnVersion(topicAppId(name)),
    nextOffsets,
    holdBack,
  };
}
