/** Parked events also go to `<topic>.quarantine`, for alerting and for other consumers. The table is the record of them. */
import type { EventLog, LogWriter, OutgoingRecord } from '../log/log.ts';

export interface QuarantinePublisher {
  publish(records: readonly OutgoingRecord[]): Promise<void>;
  close(): Promise<void>;
}

const SETTINGS = { partitions: 1, replicationFactor: 1, retentionMs: 7 * 24 * 3600 * 1000, compacted: false };
/** Records whose value would not fit are sent without it: the table has the whole. */
const NOTHING = null;

export function createQuarantinePublisher(log: EventLog, name: string, enabled: boolean): QuarantinePublisher | null {
  if (!enabled) return null;
  let writer: Promise<LogWriter> | null = null;
  const known = new Set<string>();
  return {
    async publish(records) {
      const topics = new Set(records.map(({ topic }) => topic));
      for (const topic of topics) {
        if (known.has(topic)) continue;
        await log.admin.ensureTopics({ [topic]: SETTINGS });
        known.add(topic);
      }
      writer ??= log.writer(`${name}.quarantine`);
      const open = await writer;
      await open.append(
        records.map((record) =>
          (record.value?.length ?? 0) > open.recordBytesMax ? { ...record, value: NOTHING } : record,
        ),
      );
    },
    async close() {
      await (await writer?.catch(() => null))?.close();
    },
  };
}
