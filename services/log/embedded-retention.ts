/** What the embedded log lets go: released chunks that are too old, or too many. Never anything that is not released. */
import type { TopicEntry, LogIndex } from './embedded-index.ts';
import {
  chunksFrom,
  partitionState,
  putPartitionState,
  putSegment,
  removeChunk,
  removeSegment,
  segments,
  segmentState,
} from './embedded-index.ts';

/** Chunks dropped in one transaction at most; the next release goes on. */
const CHUNKS_MAX = 4096;

/** Applies retention to one partition. Inside `write`; returns the segments whose files may be deleted afterwards. */
export function trimPartition(
  index: LogIndex,
  topic: TopicEntry,
  partition: number,
  nowMs: number,
  retentionBytes: number,
): number[] {
  if (topic.settings.compacted) return [];
  const { released, earliest } = partitionState(index, topic.id, partition);
  if (released <= earliest) return [];
  let kept = keptBytes(index);
  const { retentionMs } = topic.settings;
  let upTo = earliest;
  for (const chunk of chunksFrom(index, topic.id, partition, earliest, CHUNKS_MAX)) {
    const end = chunk.base + BigInt(chunk.count);
    if (end > released) break;
    const expired = retentionMs >= 0 && chunk.timestampMs + retentionMs <= nowMs;
    if (!expired && kept <= BigInt(retentionBytes)) break;
    kept -= BigInt(chunk.length);
    upTo = end;
  }
  return upTo === earliest ? [] : dropChunks(index, topic, partition, upTo);
}

function keptBytes(index: LogIndex): bigint {
  let bytes = 0n;
  for (const segment of segments(index)) bytes += segment.liveBytes;
  return bytes;
}

/** Drops every chunk that ends at or below `upTo`. Inside `write`; returns the segments that are empty now. */
export function dropChunks(index: LogIndex, topic: TopicEntry, partition: number, upTo: bigint): number[] {
  const state = partitionState(index, topic.id, partition);
  const bySegment = new Map<number, bigint>();
  let dropped = 0n;
  let { earliest } = state;
  for (;;) {
    const page = chunksFrom(index, topic.id, partition, earliest, CHUNKS_MAX).filter(
      (chunk) => chunk.base + BigInt(chunk.count) <= upTo,
    );
    for (const chunk of page) {
      removeChunk(index, topic.id, partition, chunk.base);
      bySegment.set(chunk.segment, (bySegment.get(chunk.segment) ?? 0n) + BigInt(chunk.length));
      dropped += BigInt(chunk.length);
      earliest = chunk.base + BigInt(chunk.count);
    }
    if (page.length < CHUNKS_MAX) break;
  }
  putPartitionState(index, topic.id, partition, { ...state, earliest, bytes: state.bytes - dropped });
  const emptied: number[] = [];
  for (const [id, bytes] of bySegment) {
    const segment = segmentState(index, id);
    if (segment === null) continue;
    const liveBytes = segment.liveBytes - bytes;
    if (liveBytes <= 0n && segment.sealed) {
      removeSegment(index, id);
      emptied.push(id);
    } else putSegment(index, { ...segment, liveBytes });
  }
  return emptied;
}
