/** Prints batches, as Structured Streaming's console sink does: for trying things out. */
import type { BatchSink, StreamBatch } from '../sink.ts';
import { rowJson } from './row-json.ts';

export interface ConsoleSinkOptions {
  readonly write: (text: string) => void;
  /** Rows shown a batch; default 20. */
  readonly rows?: number;
}

export function consoleSink({ write, rows = 20 }: ConsoleSinkOptions): BatchSink {
  return async (batch: StreamBatch, batchId) => {
    write(`batch ${batchId} of ${batch.queryName}: ${batch.rowCount} rows\n`);
    let shown = 0;
    for (const row of batch.rows()) {
      if (shown++ >= rows) break;
      write(`${rowJson(row)}\n`);
    }
    if (batch.rowCount > rows) write(`… and ${batch.rowCount - rows} more\n`);
  };
}
