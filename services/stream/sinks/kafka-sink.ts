/**
 * Rows to another topic, keyed as in the source, through the log port (Kafka or embedded). At least once: each record's
 * value carries the row's position, by which a consumer tells a repetition.
 */
import type { LogWriter, OutgoingRecord } from '../../log/log.ts';
import type { BatchSink, StreamBatch } from '../sink.ts';
import { rowJson, valuesJson } from './row-json.ts';

export interface KafkaSinkOptions {
  readonly writer: LogWriter;
  readonly topicOf: (batch: StreamBatch) => string;
}

/** Records of one log transaction. */
const APPEND_ROWS = 10_000;

export function kafkaSink({ writer, topicOf }: KafkaSinkOptions): BatchSink {
  return async (batch, batchId) => {
    const topic = topicOf(batch);
    let records: OutgoingRecord[] = [];
    for (const row of batch.rows()) {
      const key = Object.fromEntries(batch.keyColumns.map((name) => [name, row.values[name] ?? null]));
      records.push({
        topic,
        key: Buffer.from(valuesJson(key)),
        value: Buffer.from(`${rowJson(row).slice(0, -1)},"batchId":${batchId}}`),
        header: null,
      });
      if (records.length < APPEND_ROWS) continue;
      await writer.append(records);
      records = [];
    }
    if (records.length > 0) await writer.append(records);
  };
}
