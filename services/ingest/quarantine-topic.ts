/** Parked events also go to `<topic>.quarantine`, for alerting and for other consumers. The table is the record of them. */
import type { EventLog, LogWriter, OutgoingRecord } from '../log/log.ts';

export interface QuarantinePublisher {
  publish(records: readonly OutgoingRecord[]): Promise<void>;
  close(): Promise<void>;
}

const SETTINGS = { partitions: 1, replicationFactor: 1, retentionMs: 7 * 24 * 3600 * 1000, compacted: false };
/** Records whose value would not fit are sent without it: the table has the whole. */
const NOTHING = null;

/** `identity`: of this process alone among the pipeline's stream workers, or they would fence each other. */
export function createQuarantinePublisher(
  log: EventLog,
  { identity, enabled }: { readonly identity: string; readonly enabled: boolean },
): QuarantinePublisher | null {
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
      writer ??= log.writer(identity);
      const mine = writer;
      try {
        await append(await mine, records);
      } catch (error) {
        // A writer that lost its brokers, or was fenced, writes no more; the batch runs again with a new one, and with its topic.
        for (const topic of topics) known.delete(topic);
        if (writer === mine) writer = null;
        await mine.then((open) => open.close()).catch(() => undefined);
        throw error;
      }
    },
    async close() {
      await (await writer?.catch(() => null))?.close();
    },
  };
}

async function append(writer: LogWriter, records: readonly OutgoingRecord[]): Promise<void> {
  await writer.append(
    records.map((record) =>
      (record.value?.length ?? 0) > writer.recordBytesMax ? { ...record, value: NOTHING } : record,
    ),
  );
}
