/**
 * Change files: what a commit changed, row by row, for readers of the change data feed (PROTOCOL.md, "Add CDC File").
 * A commit with any of them must list all of its changes there, so they are written only when something was updated or
 * deleted; pure inserts are read from the added files, a TRUNCATE from what it removes.
 */
import { randomUUID } from 'node:crypto';
import { encodeParquet } from '../parquet/encode.ts';
import type { CdcFile } from '../table/actions.ts';
import { mappingMode } from '../table/column-mapping.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { StructField } from '../table/schema.ts';
import type { FileSettings } from './data-files.ts';
import { joinBatches, pickRows } from './delete-rows.ts';
import { partitionRows } from './partition-rows.ts';
import { putObject } from './put-object.ts';

export type ChangeType = 'insert' | 'delete' | 'update_preimage' | 'update_postimage';

const CHANGE_TYPE: StructField = { name: '_change_type', type: 'string', nullable: true, metadata: {} };

export interface ChangePart {
  readonly type: ChangeType;
  /** Columns of the table's schema. */
  readonly rows: ColumnBatch;
}

export interface ChangeFiles {
  readonly cdcs: readonly CdcFile[];
  readonly bytes: number;
}

export async function writeChangeFiles(settings: FileSettings, parts: readonly ChangePart[]): Promise<ChangeFiles> {
  const all = parts.filter((part) => part.rows.rowCount > 0).map(withType);
  if (all.length === 0) return { cdcs: [], bytes: 0 };
  const cdcs: CdcFile[] = [];
  let bytes = 0;
  const { metadata, schema, codec, store } = settings;
  const joined = joinBatches(all);
  for (const { rows: chosen, partitionValues } of partitionRows(metadata, schema, joined, store.uri)) {
    const rows = chosen === null ? joined : pickRows(joined, chosen);
    const stored = schema.fields.filter((field) => !metadata.partitionColumns.includes(field.name));
    const columnMapping = mappingMode(metadata) !== 'none';
    const body = await encodeParquet({ type: 'struct', fields: [...stored, CHANGE_TYPE] }, rows, {
      codec,
      columnMapping,
    });
    const path = `_change_data/cdc-00000-${randomUUID()}.c000.${codec}.parquet`;
    await putObject(store, path, body);
    bytes += body.byteLength;
    cdcs.push({ path, partitionValues, size: BigInt(body.byteLength), tags: null });
  }
  return { cdcs, bytes };
}

function withType({ type, rows }: ChangePart): ColumnBatch {
  return {
    rowCount: rows.rowCount,
    names: [...rows.names, CHANGE_TYPE.name],
    columns: [...rows.columns, repeated(type, rows.rowCount)],
  };
}

function repeated(text: string, length: number): ColumnVector {
  const bytes = Buffer.from(text);
  const offsets = Int32Array.from({ length: length + 1 }, (_, row) => row * bytes.length);
  return { kind: 'utf8', length, validity: null, offsets, data: Buffer.alloc(bytes.length * length, bytes) };
}
