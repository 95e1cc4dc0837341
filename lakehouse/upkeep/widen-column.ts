/**
 * Gives a column a wider type by rewriting its files, in one commit. (The protocol's typeWidening feature would spare that,
 * but locks out delta-rs and Polars.) Files that a vector had thinned out come out whole; older versions read as before.
 */
import { randomUUID } from 'node:crypto';
import { concat } from '../merge/concat.ts';
import { encodeParquet } from '../parquet/encode.ts';
import { liveRows, vectorRows } from '../read/file-rows.ts';
import { isRetriable } from '../store/store.ts';
import { DEFAULT_BACKOFF, withRetry } from '../store/retry.ts';
import { NO_ACTIONS, newAdd, removeOf, vectorId } from '../table/actions.ts';
import type { AddFile } from '../table/actions.ts';
import type { ColumnBatch } from '../table/column.ts';
import { mappingMode } from '../table/column-mapping.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import { fileIdentity } from '../table/replay.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import { schemaText } from '../table/schema-json.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { collectStats } from '../table/stats.ts';
import { TableError } from '../table/table-error.ts';

const INTEGERS: readonly DeltaType[] = ['byte', 'short', 'integer', 'long'];
const DECIMAL = /^decimal\((\d+),(\d+)\)$/;

/** Whether every value of `from` is a value of `to`. */
export function isWider(from: DeltaType, to: DeltaType): boolean {
  if (from === 'float') return to === 'double';
  const place = INTEGERS.indexOf(from);
  if (place >= 0) return INTEGERS.indexOf(to) > place;
  const narrow = typeof from === 'string' ? DECIMAL.exec(from) : null;
  const wide = typeof to === 'string' ? DECIMAL.exec(to) : null;
  if (narrow === null || wide === null || from === to) return false;
  const [precision, scale] = [Number(narrow[1]), Number(narrow[2])];
  const [widePrecision, wideScale] = [Number(wide[1]), Number(wide[2])];
  return widePrecision <= 38 && wideScale >= scale && widePrecision - wideScale >= precision - scale;
}

/** `version` is null when the column already has the type. @throws TableError SCHEMA_INVALID | UPKEEP_REFUSED | as commitTo */
export async function widenColumn(
  snapshot: Snapshot,
  column: string,
  to: DeltaType,
  options: CommitOptions & { readonly newId?: () => string } = {},
): Promise<CommitResult> {
  const newId = options.newId ?? randomUUID;
  const nowMs = (options.now ?? Date.now)();
  // A file that was rewritten for a try that lost need not be rewritten again.
  const done = new Map<string, AddFile | null>();
  const propose = async (newest: Snapshot): Promise<Proposal | null> => {
    const schema = widened(newest, column, to);
    if (schema === null) return null;
    const files = [...newest.files];
    for (const file of files) {
      const key = identity(file);
      if (!done.has(key)) done.set(key, await rewrite(newest, file, schema, newId(), nowMs));
    }
    return {
      operation: { name: 'CHANGE COLUMN', parameters: { column } },
      actions: {
        ...NO_ACTIONS,
        metadata: { ...newest.metadata, schemaString: schemaText(schema) },
        removes: files.map((file) => removeOf(file, nowMs, false)),
        adds: files.map((file) => done.get(identity(file)) ?? null).filter((add) => add !== null),
      },
    };
  };
  const first = await propose(snapshot);
  if (first === null) return { version: null, snapshot, conflicts: 0 };
  return commitTo(snapshot, first, async (_lost, newest) => propose(newest), options);
}

function identity(file: AddFile): string {
  return fileIdentity(file.path, vectorId(file.deletionVector));
}

/** The schema with the column widened; null when it is of the type already. */
function widened(snapshot: Snapshot, column: string, to: DeltaType): StructType | null {
  const place = { table: snapshot.store.uri, version: snapshot.version };
  const field = snapshot.schema.fields.find(({ name }) => name === column);
  if (field === undefined) throw new TableError('SCHEMA_INVALID', place, `the table has no column "${column}"`);
  if (field.type === to) return null;
  if (!isWider(field.type, to) || snapshot.metadata.partitionColumns.includes(column)) {
    const types = [field.type, to].map((type) => (typeof type === 'string' ? type : type.type));
    const why = `column "${column}" cannot be widened from ${types[0]} to ${types[1]}`;
    throw new TableError('UPKEEP_REFUSED', place, `${why}; add a new column, or write a new table`);
  }
  const fields = snapshot.schema.fields.map((one) => (one.name === column ? { ...one, type: to } : one));
  return { type: 'struct', fields };
}

/** The file's live rows with the new type, as a new file; null when none is live. */
async function rewrite(
  snapshot: Snapshot,
  file: AddFile,
  schema: StructType,
  id: string,
  nowMs: number,
): Promise<AddFile | null> {
  const partitions = new Set(snapshot.metadata.partitionColumns);
  const stored: StructType = { type: 'struct', fields: schema.fields.filter(({ name }) => !partitions.has(name)) };
  const parts: ColumnBatch[] = [];
  const deleted = await vectorRows(snapshot, file.deletionVector);
  for await (const batch of liveRows({ ...snapshot, schema }, file, stored.fields, deleted)) parts.push(batch);
  const rowCount = parts.reduce((sum, part) => sum + part.rowCount, 0);
  if (rowCount === 0) return null;
  const columns = stored.fields.map((_field, at) => concat(parts.flatMap((part) => part.columns[at] ?? [])));
  const batch: ColumnBatch = { rowCount, names: stored.fields.map(({ name }) => name), columns };
  const columnMapping = mappingMode(snapshot.metadata) !== 'none';
  const body = await encodeParquet(stored, batch, { columnMapping });
  const path = `part-00000-${id}-c000.snappy.parquet`;
  await withRetry(() => snapshot.store.put(path, body), isRetriable, DEFAULT_BACKOFF);
  return newAdd({
    path,
    partitionValues: file.partitionValues,
    size: BigInt(body.length),
    modificationTime: BigInt(nowMs),
    dataChange: false,
    stats: collectStats(stored, batch, { columnMapping }),
    tags: file.tags,
  });
}
