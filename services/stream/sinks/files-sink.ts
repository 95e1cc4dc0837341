/** JSON lines, one object a batch. Its name is the batch's, so a batch that runs again writes the same object again. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { BatchSink, StreamBatch } from '../sink.ts';
import { rowJson } from './row-json.ts';

export interface FilesSinkOptions {
  readonly store: ObjectStore;
  /** Folder inside the store. */
  readonly folder: string;
}

const CHUNK_ROWS = 4096;

export function filesSink({ store, folder }: FilesSinkOptions): BatchSink {
  return async (batch: StreamBatch, batchId) => {
    if (batch.rowCount === 0) return;
    const chunks: Buffer[] = [];
    let lines: string[] = [];
    for (const row of batch.rows()) {
      lines.push(rowJson(row));
      if (lines.length < CHUNK_ROWS) continue;
      chunks.push(Buffer.from(`${lines.join('\n')}\n`));
      lines = [];
    }
    if (lines.length > 0) chunks.push(Buffer.from(`${lines.join('\n')}\n`));
    const name = `${batch.schemaName}.${batch.tableName}/${String(batchId).padStart(12, '0')}-${batch.queryId.slice(0, 8)}.jsonl`;
    await store.put(`${folder}/${name}`, Buffer.concat(chunks));
  };
}
