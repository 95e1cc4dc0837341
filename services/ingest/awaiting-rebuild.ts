/** After a restart: the events that may await their base, read again from the hold-back offsets. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { DecodeError } from '../log/decode-error.ts';
import type { LogReader } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { createAwaiting } from './awaiting.ts';
import type { Awaiting } from './awaiting.ts';
import { readRange } from './batch-builder.ts';
import type { RecordDecoder } from './decode-batch.ts';
import { keyCellOf } from './key-cell.ts';
import type { ShapeFeed } from './shape-feed.ts';

export interface RebuildOptions {
  readonly reader: LogReader;
  readonly lake: ObjectStore;
  readonly shapes: ShapeFeed;
  readonly topic: string;
  readonly from: ReadonlyMap<number, bigint>;
  readonly to: ReadonlyMap<number, LogOffset>;
  readonly keySources: readonly string[];
  readonly decode: RecordDecoder;
  readonly bytesMax: number;
  readonly readBytesMax: number;
}

/**
 * Every partial event that no complete event or delete of its key follows. Some of them found their base and are in the
 * table: they come out stale when they are taken up, so nothing is applied twice.
 */
export async function rebuildAwaiting(options: RebuildOptions): Promise<Awaiting> {
  const awaiting = createAwaiting(options.bytesMax);
  const plan = { batchId: 0n, timestampMs: 0, topic: options.topic, from: options.to, to: options.to, conf: {} };
  for (const [partition, from] of options.from) {
    const to = options.to.get(partition);
    if (to === undefined) continue;
    for await (const batch of readRange({ ...options, plan }, partition, from as LogOffset, to)) {
      for (let i = 0; i < batch.offsets.length; i++) {
        const record = {
          topic: batch.topic,
          partition,
          offset: batch.offsets[i] ?? 0n,
          key: batch.keys[i] ?? null,
          value: batch.values[i] ?? null,
          header: batch.headers[i] ?? null,
        };
        try {
          const event = options.decode(record);
          const key = keyCellOf(event.row, options.keySources);
          if (key === null || event.op === 't' || event.op === 'm') continue;
          if (event.absent === 0 || event.op === 'd' || event.op === 'tombstone') awaiting.take(key);
          else awaiting.put(key, record);
        } catch (error) {
          // Undecodable records were parked by their own batch.
          if (!(error instanceof DecodeError)) throw error;
        }
      }
    }
  }
  return awaiting;
}
