/** The reader's state as it comes back from its topic; the log is a list of records. */
import { expect, it } from 'vitest';
import type { LogReader, OutgoingRecord } from '../log/log.ts';
import type { LogOffset, Lsn } from '../log/position.ts';
import { loadReaderState, positionRecord, topicRecord, type ReaderPosition } from './reader-state.ts';

const POSITION: ReaderPosition = {
  systemIdentifier: '7300000000000000001',
  timeline: 1,
  database: 'shop',
  slot: 'shop',
  logId: 'log',
  epoch: 2,
  lsn: 0xffff_ffff_ffff_fff0n as Lsn,
  ord: 4,
  open: true,
  confirmLsn: 0x1_0000_0000n as Lsn,
  sequence: 7,
  bytes: 9_007_199_254_740_993n,
  sourceTimeMicros: 1_700_000_000_000_001n,
  unseenXids: [12],
};

function topicOf(records: readonly (Pick<OutgoingRecord, 'key'> & { readonly value: Buffer | null })[]): LogReader {
  const end = BigInt(records.length) as LogOffset;
  return {
    bounds: async () => new Map([[0, { earliest: 0n as LogOffset, end }]]),
    async *read(topic) {
      yield {
        topic,
        partition: 0,
        offsets: BigInt64Array.from(records.keys(), BigInt),
        keys: records.map(({ key }) => key),
        values: records.map(({ value }) => value),
        headers: records.map(() => null),
        timestampsMs: new Float64Array(records.length),
        nextOffset: end,
        bytes: 0,
      };
    },
    follow: () => {
      throw new RangeError('the state is read once');
    },
    offsetsAt: async () => new Map(),
    close: async () => undefined,
  };
}
const changed = (record: OutgoingRecord, value: string | null) => ({
  key: record.key,
  value: value === null ? null : Buffer.from(value),
});
const position = positionRecord('shop', POSITION);

it('gives the newest record of each key, with every digit of positions and sizes', async () => {
  const older = positionRecord('shop', { ...POSITION, sequence: 6 });
  const gone = topicRecord('shop', 'shop.public.gone', 3);
  const log = topicOf([older, gone, position, topicRecord('shop', 'shop.public.a', 2), changed(gone, null)]);
  const { position: read, partitions } = await loadReaderState(log, 'shop');
  expect(read).toMatchObject(POSITION);
  expect(partitions).toEqual(new Map([['shop.public.a', 2]]));
});

it('refuses a newer format, and what is no state, by topic and record', async () => {
  const cases = [
    ['{"formatVersion": 2}', 'STATE_FORMAT_NEWER', /shop\.__reader.*position.*format 2; this Sluice reads up to 1/],
    ['{"lsn": "0/1"}', 'STATE_FORMAT_NEWER', /format undefined/],
    ['{"formatVersion": 1, ', 'STATE_CORRUPT', /shop\.__reader.*position.*not JSON/],
  ] as const;
  for (const [text, code, message] of cases)
    await expect(loadReaderState(topicOf([changed(position, text)]), 'shop')).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as unknown,
    });
});
