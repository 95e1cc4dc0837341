/** Structured Streaming's ForeachWriter as a sink: a row at a time, for what has no batch interface. */
import type { BatchSink, StreamBatch, StreamRow } from '../sink.ts';

export interface ForeachWriter {
  /** False skips the batch: the writer knows it has it already. */
  open(partitionId: number, batchId: bigint): Promise<boolean> | boolean;
  process(row: StreamRow): Promise<void> | void;
  /** Called whenever `open` returned; `error` is null after a whole batch. */
  close(error: Error | null): Promise<void> | void;
}

export function foreachWriterSink(writer: ForeachWriter): BatchSink {
  return async (batch: StreamBatch, batchId) => {
    if (!(await writer.open(0, batchId))) {
      await writer.close(null);
      return;
    }
    try {
      for (const row of batch.rows()) await writer.process(row);
    } catch (error) {
      await writer.close(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
    await writer.close(null);
  };
}
