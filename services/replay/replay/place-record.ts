/** A table's place in the stream as JSON, and back. */
import type { StreamPosition } from '../../ingest/txn-ids.ts';
import type { LogOffset } from '../../log/position.ts';
import type { OffsetTexts, PlaceRecord } from './replay-record.ts';

export function placeRecord(place: StreamPosition): PlaceRecord {
  const texts = (offsets: ReadonlyMap<number, bigint>): OffsetTexts =>
    Object.fromEntries([...offsets].map(([partition, offset]) => [String(partition), String(offset)]));
  return {
    epoch: place.epoch,
    lsn: String(place.lsn),
    markSequence: place.markSequence,
    progressOffset: String(place.progressOffset),
    nextOffsets: texts(place.nextOffsets),
    holdBack: texts(place.holdBack),
  };
}

export function streamPlace(record: PlaceRecord): StreamPosition {
  const offsets = <T extends bigint>(texts: OffsetTexts): Map<number, T> =>
    new Map(Object.entries(texts).map(([partition, text]) => [Number(partition), BigInt(text) as T]));
  return {
    epoch: record.epoch,
    lsn: BigInt(record.lsn),
    markSequence: record.markSequence,
    progressOffset: BigInt(record.progressOffset),
    nextOffsets: offsets<LogOffset>(record.nextOffsets),
    holdBack: offsets(record.holdBack),
  };
}
