/**
 * TRUNCATE takes the rows that are older than itself. Statistics decide for whole files where they can: a file of rows all
 * older goes without being read, one of rows all newer stays; only a file of both is read, and only its position columns.
 */
import type { TruncatePosition } from '../index/manifest.ts';
import type { AddFile } from '../table/actions.ts';
import { mappingMode, physicalName } from '../table/column-mapping.ts';
import type { ColumnVector } from '../table/column.ts';
import { containsRow, type RowSet } from '../table/row-bitmap.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { columnBounds, recordCount } from './file-stats.ts';
import { EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN, positionsOf } from './position-columns.ts';
import { openDataFile, readRowGroups } from './read-rows.ts';
import { comparePositionAt } from './resolve.ts';
import { NO_ROWS, type VectorCache } from './vector-cache.ts';

export interface TruncatedRows {
  /** Living rows to go, a file; ascending. */
  readonly rows: ReadonlyMap<string, RowSet>;
  readonly count: number;
}

export async function findTruncated(
  snapshot: Snapshot,
  vectors: VectorCache,
  truncate: TruncatePosition,
): Promise<TruncatedRows> {
  const rows = new Map<string, RowSet>();
  let count = 0;
  for (const file of snapshot.files) {
    const verdict = judge(snapshot, file, truncate);
    if (verdict === 'newer') continue;
    const dead = (await vectors.rowsOf(snapshot.store, [file])).get(file.path) ?? NO_ROWS;
    const older = verdict === 'older' ? await allRows(snapshot, file) : await olderRows(snapshot, file, truncate);
    const living = dead.length === 0 ? older : older.filter((row) => !containsRow(dead, row));
    if (living.length > 0) rows.set(file.path, living);
    count += living.length;
  }
  return { rows, count };
}

function judge(snapshot: Snapshot, file: AddFile, truncate: TruncatePosition): 'older' | 'newer' | 'mixed' {
  const bounds = (name: string): ReturnType<typeof columnBounds> => {
    const field = snapshot.schema.fields.find((candidate) => candidate.name === name);
    return field === undefined ? null : columnBounds(file, physicalName(field, mappingMode(snapshot.metadata)));
  };
  const epoch = bounds(EPOCH_COLUMN);
  const lsn = bounds(LSN_COLUMN);
  if (epoch === null || lsn === null || lsn.min < 0n) return 'mixed';
  const at = BigInt(truncate.epoch);
  if (epoch.max < at) return 'older';
  if (epoch.min > at) return 'newer';
  if (epoch.min !== at || epoch.max !== at) return 'mixed';
  if (lsn.max < truncate.lsn) return 'older';
  return lsn.min > truncate.lsn ? 'newer' : 'mixed';
}

async function allRows(snapshot: Snapshot, file: AddFile): Promise<RowSet> {
  const count = recordCount(file) ?? (await openDataFile(snapshot, file)).rowCount;
  return Uint32Array.from({ length: count }, (_, row) => row);
}

async function olderRows(snapshot: Snapshot, file: AddFile, truncate: TruncatePosition): Promise<RowSet> {
  const fields = [EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN].flatMap((name): StructField[] =>
    snapshot.schema.fields.filter((field) => field.name === name),
  );
  const older: number[] = [];
  for await (const { rowStart, batch } of readRowGroups(snapshot, file, fields)) {
    const column = (name: string): ColumnVector | undefined => batch.columns[batch.names.indexOf(name)];
    const positions = positionsOf(
      { epoch: column(EPOCH_COLUMN), lsn: column(LSN_COLUMN), ord: column(ORD_COLUMN) },
      batch.rowCount,
    );
    for (let row = 0; row < batch.rowCount; row++)
      if (comparePositionAt(positions, row, truncate) < 0) older.push(rowStart + row);
  }
  return Uint32Array.from(older);
}
