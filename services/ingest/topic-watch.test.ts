import { describe, expect, it } from 'vitest';
import { LogError, type LogReader, type PartitionBounds } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { createTopicWatch } from './topic-watch.ts';
import { logFingerprint, type CommittedPosition, type StreamPosition } from './txn-ids.ts';

const TOPIC = 'p.public.t';

function standing(next: bigint): StreamPosition {
  const nextOffsets = new Map([[0, next as LogOffset]]);
  return { epoch: 1, lsn: 0n, markSequence: 1, progressOffset: 0n, nextOffsets, holdBack: new Map() };
}
const committed = (next: bigint): CommittedPosition => ({
  ...standing(next),
  batchId: 0n,
  logFingerprint: logFingerprint('log'),
  topicFingerprint: logFingerprint('one'),
});
const bounds = (earliest: bigint, end: bigint): Map<number, PartitionBounds> =>
  new Map([[0, { earliest: earliest as LogOffset, end: end as LogOffset }]]);

/** A log whose ends are `now()`, asked one after the other; `between` happens before the topic's identity is told. */
function logOf(now: () => Map<number, PartitionBounds>, between: () => Promise<void> = () => Promise.resolve()) {
  const reader = { bounds: () => Promise.resolve(now()) } as unknown as LogReader;
  const topicIds = async (): Promise<Map<string, string>> => {
    await between();
    return new Map([[TOPIC, 'one']]);
  };
  return { logId: 'log', reader, topicIds };
}

describe('the look at a topic', () => {
  it('takes what another owner committed since the ends were asked for no topic that was made anew', async () => {
    const watch = createTopicWatch(
      TOPIC,
      logOf(() => bounds(0n, 20n)),
    );
    // The ends were asked first; then the table was read, which stands behind them by now.
    await expect(watch.takeFor(committed(15n), bounds(0n, 10n))).resolves.toBeUndefined();
    await expect(watch.takeFor(committed(30n), bounds(0n, 10n))).rejects.toMatchObject({ code: 'TOPIC_RESET' });
    await expect(watch.takeFor(committed(5n), bounds(7n, 10n))).rejects.toMatchObject({ code: 'OFFSETS_EXPIRED' });
  });

  it('stops a table for a topic that is gone, and not for one that a broker does not know of yet', async () => {
    const missing = new LogError('LOG_TOPIC_MISSING', 'no such topic');
    const reader = { bounds: () => Promise.reject(missing) } as unknown as LogReader;
    let ids = new Map([[TOPIC, 'one']]);
    const watch = createTopicWatch(TOPIC, { logId: 'log', reader, topicIds: () => Promise.resolve(ids) });
    await expect(watch.bounds()).rejects.toBe(missing);
    ids = new Map();
    await expect(watch.bounds()).rejects.toMatchObject({ code: 'TOPIC_RESET' });
  });

  it('takes what retention let go behind a table that moved on meanwhile for no loss', async () => {
    let at = standing(5n);
    let earliest = 0n;
    const watch = createTopicWatch(
      TOPIC,
      logOf(
        () => bounds(earliest, 20n),
        async () => {
          [at, earliest] = [standing(15n), 10n];
        },
      ),
    );
    await expect(watch.check(() => at)).resolves.toBeUndefined();
    const lost = createTopicWatch(
      TOPIC,
      logOf(() => bounds(10n, 20n)),
    );
    const behind = standing(5n);
    await expect(lost.check(() => behind)).rejects.toMatchObject({ code: 'OFFSETS_EXPIRED' });
  });
});
