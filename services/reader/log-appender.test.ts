import { expect, it } from 'vitest';
import type { Mark } from '../log/event.ts';
import { appenderOver, marksIn } from '../../test/support/log-appender.ts';
import type { NextOffsets } from '../log/log.ts';
import type { LogOffset, Lsn } from '../log/position.ts';

const TOPIC = 'shop.public.orders';
const at = (partition: number, next: bigint): NextOffsets =>
  new Map([[TOPIC, new Map([[partition, next as LogOffset]])]]);

/** Appends one record a flush; each answer is what the log assigns at one try. */
async function marksOf(offsets: NextOffsets, flushes: readonly (readonly NextOffsets[])[]): Promise<Mark[]> {
  const marks: Mark[] = [];
  let flush = 0;
  const appender = appenderOver(
    async (_records, controls) => {
      let last: NextOffsets = new Map();
      let mark: Mark | null = null;
      for (last of flushes[flush++] ?? []) mark = marksIn(controls?.(last) ?? []).at(-1) ?? mark;
      if (mark !== null) marks.push(mark);
      return last;
    },
    { offsets, clock: () => 0 },
  );
  for (let i = 0; i < flushes.length; i++) {
    appender.batch.records.push({ topic: TOPIC, key: null, value: Buffer.from('{}'), header: Buffer.alloc(0) });
    await appender.flush({ lsn: 2n as Lsn, ord: 0, confirmLsn: 2n as Lsn, open: false, sourceTimeMicros: 0n });
  }
  return marks;
}

it('names a topic that began anew though the log tried the append twice', async () => {
  const [mark] = await marksOf(at(0, 900n), [[at(0, 1n), at(0, 3n)]]);
  expect(mark).toMatchObject({ resets: [TOPIC], nextOffsets: { [TOPIC]: { 0: '3' } } });
});

it('takes a try that failed for nothing: its offsets are not where the topic stood', async () => {
  const marks = await marksOf(at(0, 10n), [[at(0, 90n), at(0, 11n)], [at(0, 12n)]]);
  expect(marks.map(({ resets }) => resets)).toEqual([undefined, undefined]);
});
