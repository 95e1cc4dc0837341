import { expect, it } from 'vitest';
import type { TableShape } from '../log/event.ts';
import type { LogBatch, LogReader, PartitionBounds } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { createShapeFeed } from './shape-feed.ts';

const shapeRecord = (version: number): { readonly key: Buffer; readonly value: Buffer } => {
  const shape: TableShape = { schema: 'public', table: 't', oid: 1, version, columns: [] };
  return {
    key: Buffer.from(JSON.stringify(['shape', version])),
    value: Buffer.from(JSON.stringify({ formatVersion: 1, shape })),
  };
};

/** `__reader` with one shape a record. Asked for its ends, it answers when `answer` does. */
function readerOf(records: () => number, answer: () => Promise<void>): { reader: LogReader; read: bigint[] } {
  const read: bigint[] = [];
  const reader = {
    async bounds(): Promise<Map<number, PartitionBounds>> {
      const end = BigInt(records()) as LogOffset;
      await answer();
      return new Map([[0, { earliest: 0n as LogOffset, end }]]);
    },
    async *read(_topic: string, _partition: number, from: bigint, to: bigint) {
      for (let at = from; at < to; at++) {
        read.push(at);
        const { key, value } = shapeRecord(Number(at) + 1);
        yield { keys: [key], values: [value] } as unknown as LogBatch;
        await Promise.resolve();
      }
    },
  } as unknown as LogReader;
  return { reader, read };
}

it('reads on from where it is, when an answer of before another look comes late', async () => {
  let records = 2;
  let release = (): void => undefined;
  const late = new Promise<void>((resolve) => void (release = resolve));
  const answers = [Promise.resolve(), late];
  const { reader, read } = readerOf(
    () => records,
    () => answers.shift() ?? Promise.resolve(),
  );
  const feed = createShapeFeed(reader, 'p');
  await feed.refresh();
  const first = feed.refresh();
  records = 3;
  const second = feed.refresh();
  for (let turns = 0; turns < 50; turns++) await Promise.resolve();
  release();
  await Promise.all([first, second]);
  expect(feed.latest('public', 't')?.version).toBe(3);
  expect(read).toEqual([0n, 1n, 2n]);
});

it('shows what it had while a topic that was made again is read', async () => {
  let records = 5;
  const { reader } = readerOf(
    () => records,
    () => Promise.resolve(),
  );
  const feed = createShapeFeed(reader, 'p');
  await feed.refresh();
  records = 2;
  const seen = new Set<number | undefined>();
  let done = false;
  const again = feed.refresh().finally(() => (done = true));
  while (!done) {
    seen.add(feed.latest('public', 't')?.version);
    await Promise.resolve();
  }
  await again;
  expect([...seen].filter((version) => version === 1)).toEqual([]);
  expect(feed.latest('public', 't')?.version).toBe(2);
});
