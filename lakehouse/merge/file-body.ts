/** One data file out of a batch, as a job of its own: its bytes, and its statistics. */
import { encodeParquet, type ParquetCodec } from '../parquet/encode.ts';
import type { ColumnBatch } from '../table/column.ts';
import type { StructType } from '../table/schema.ts';
import { collectStats } from '../table/stats.ts';

export interface FileJob {
  /** Of the file: partition columns left out. */
  readonly schema: StructType;
  readonly batch: ColumnBatch;
  readonly codec: ParquetCodec;
  readonly columnMapping: boolean;
  /** As StatsOptions. */
  readonly indexedColumns: number | readonly (readonly string[])[] | undefined;
}

export interface FileBody {
  readonly body: Uint8Array;
  readonly stats: string;
}

/** @throws ParquetError PARQUET_ENCODE_FAILED */
export async function runFileJob({ schema, batch, codec, columnMapping, indexedColumns }: FileJob): Promise<FileBody> {
  const body = await encodeParquet(schema, batch, { codec, columnMapping });
  const stats = collectStats(schema, batch, {
    columnMapping,
    ...(indexedColumns === undefined ? {} : { indexedColumns }),
  });
  return { body, stats };
}
