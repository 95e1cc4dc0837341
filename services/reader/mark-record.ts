/** A mark as a record of `<name>.__progress`. */
import type { Mark } from '../log/event.ts';
import type { OutgoingRecord } from '../log/log.ts';
import { formatLsn } from '../log/position.ts';
import { progressTopic } from '../log/topics.ts';

export function markRecord(name: string, mark: Mark): OutgoingRecord {
  const text = JSON.stringify(
    { ...mark, lsn: formatLsn(mark.lsn), confirmLsn: formatLsn(mark.confirmLsn) },
    (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  );
  return { topic: progressTopic(name), key: Buffer.from('mark'), value: Buffer.from(text), header: null, partition: 0 };
}
