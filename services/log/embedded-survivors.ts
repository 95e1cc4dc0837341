/**
 * Gives back the space of segments that hold little which is still kept: a table that is paused keeps its own chunks, not
 * every file that it shares with the tables that went on.
 *
 * Copy first, then one index transaction that points to the copies and drops the old segment, then the file goes. A crash
 * before the transaction leaves a segment that nothing names; it is removed when a writer opens.
 */
import { stat } from 'node:fs/promises';
import {
  chunkAt,
  chunksFrom,
  nextNumber,
  partitionState,
  putChunk,
  putSegment,
  refresh,
  removeSegment,
  segments,
  segmentState,
  topicNames,
  topicOf,
  write,
  type ChunkPlace,
  type LogIndex,
  type SegmentState,
} from './embedded-index.ts';
import { createSegment, deleteSegment, openSegment, readChunk, segmentFile, writeChunks } from './embedded-segments.ts';

/** Moved when less than a quarter of a segment's bytes is kept. */
const KEPT_SHARE_MAX = 4n;
const PAGE = 512;

interface Survivor {
  readonly topic: number;
  readonly partition: number;
  readonly place: ChunkPlace;
}

/** Moves the survivors of at most one segment. Resolves to true when it did. */
export async function moveSurvivors(index: LogIndex, directory: string): Promise<boolean> {
  refresh(index);
  const old = await sparseSegment(index, directory);
  if (old === null) return false;
  const survivors = await survivorsOf(index, old.id);
  const source = await openSegment(directory, old.id);
  if (source === null) return false;
  const chunks: Buffer[] = [];
  try {
    for (const { place } of survivors) chunks.push(await readChunk(source, place.position, place.length));
  } finally {
    await source.close();
  }
  // A short read is a damaged file: it stays where it is, for the reader to name.
  if (chunks.some((chunk, i) => chunk.length !== survivors[i]?.place.length)) return false;

  const id = await write(index, () => {
    const next = nextNumber(index, 'segments');
    putSegment(index, { id: next, identity: 'survivors', epoch: 0, sealed: true, liveBytes: 0n });
    return next;
  });
  try {
    const target = await createSegment(directory, id);
    try {
      await writeChunks(directory, target, chunks);
    } finally {
      await target.file.close();
    }
    const moved = await write(index, () => repoint(index, old.id, id, survivors));
    await deleteSegment(directory, moved ? old.id : id);
    return moved;
  } catch (error) {
    // Only while nothing points to the copies: the transaction may have gone through before the failure.
    const unused = await write(index, () => {
      if (segmentState(index, id)?.liveBytes !== 0n) return false;
      removeSegment(index, id);
      return true;
    });
    if (unused) await deleteSegment(directory, id);
    throw error;
  }
}

async function sparseSegment(index: LogIndex, directory: string): Promise<SegmentState | null> {
  for (const segment of segments(index)) {
    if (!segment.sealed || segment.liveBytes === 0n) continue;
    const size = await stat(segmentFile(directory, segment.id)).then(
      (found) => BigInt(found.size),
      () => 0n,
    );
    if (segment.liveBytes * KEPT_SHARE_MAX < size) return segment;
  }
  return null;
}

async function survivorsOf(index: LogIndex, segment: number): Promise<Survivor[]> {
  const found: Survivor[] = [];
  for (const name of topicNames(index)) {
    const topic = topicOf(index, name);
    if (topic === null || topic.settings.compacted) continue;
    for (let partition = 0; partition < topic.settings.partitions; partition++) {
      let at = partitionState(index, topic.id, partition).earliest;
      for (;;) {
        const page = chunksFrom(index, topic.id, partition, at, PAGE);
        for (const place of page) {
          if (place.segment === segment) found.push({ topic: topic.id, partition, place });
        }
        const last = page.at(-1);
        if (page.length < PAGE || last === undefined) break;
        at = last.base + BigInt(last.count);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }
  return found;
}

/** Inside `write`. False when the new segment was taken for a leftover meanwhile: nothing is changed then. */
function repoint(index: LogIndex, from: number, to: number, survivors: readonly Survivor[]): boolean {
  const target = segmentState(index, to);
  const source = segmentState(index, from);
  if (target === null || source === null) {
    if (target !== null) removeSegment(index, to);
    return false;
  }
  let position = 0;
  let liveBytes = 0n;
  const places: (readonly [Survivor, number])[] = [];
  for (const survivor of survivors) {
    const { topic, partition, place } = survivor;
    const now = chunkAt(index, topic, partition, place.base);
    // Retention may have taken it since.
    if (now?.base === place.base && now.segment === from && now.position === place.position) {
      places.push([survivor, position]);
      liveBytes += BigInt(place.length);
    }
    position += place.length;
  }
  // Every byte that the old segment counts as kept must be among them, or it stays as it is.
  if (liveBytes !== source.liveBytes) {
    removeSegment(index, to);
    return false;
  }
  for (const [{ topic, partition, place }, at] of places) {
    putChunk(index, topic, partition, { ...place, segment: to, position: at });
  }
  removeSegment(index, from);
  if (liveBytes > 0n) putSegment(index, { ...target, liveBytes });
  else removeSegment(index, to);
  return true;
}
