/** Rows of a decoded checkpoint as actions. */
import { NO_COLUMNS } from './action-json.ts';
import type { ActionVisitor } from './action-json.ts';
import type { PartitionValues } from './actions.ts';
import { booleanCell, intCell, longCell, structChild, textCell, textListCell, textMapCell } from './cell.ts';
import type { ColumnBatch, ColumnVector, StructColumn } from './column.ts';
import { isNull } from './column.ts';
import type { DeletionVectorDescriptor } from './deletion-vector-descriptor.ts';
import type { StructType } from './schema.ts';
import { parsedStatsText } from './stats-parsed.ts';

/** protocol, metaData, txn, domainMetadata or sidecar of a row. */
export function visitTableRow(batch: ColumnBatch, row: number, visitor: ActionVisitor): void {
  const protocol = action(batch, 'protocol', row);
  if (protocol !== null) {
    visitor.protocol?.({
      minReaderVersion: need(intCell(structChild(protocol, 'minReaderVersion'), row), 'minReaderVersion'),
      minWriterVersion: need(intCell(structChild(protocol, 'minWriterVersion'), row), 'minWriterVersion'),
      readerFeatures: textListCell(structChild(protocol, 'readerFeatures'), row),
      writerFeatures: textListCell(structChild(protocol, 'writerFeatures'), row),
    });
  }
  const metadata = action(batch, 'metaData', row);
  if (metadata !== null) visitMetadata(metadata, row, visitor);
  const txn = action(batch, 'txn', row);
  if (txn !== null) {
    visitor.txn?.({
      appId: need(textCell(structChild(txn, 'appId'), row), 'txn.appId'),
      version: need(longCell(structChild(txn, 'version'), row), 'txn.version'),
      lastUpdated: longCell(structChild(txn, 'lastUpdated'), row),
    });
  }
  const domain = action(batch, 'domainMetadata', row);
  if (domain !== null) {
    visitor.domain?.({
      domain: need(textCell(structChild(domain, 'domain'), row), 'domainMetadata.domain'),
      configuration: textCell(structChild(domain, 'configuration'), row) ?? '',
      removed: booleanCell(structChild(domain, 'removed'), row) === true,
    });
  }
  const sidecar = action(batch, 'sidecar', row);
  if (sidecar !== null) visitor.sidecar?.({ path: need(textCell(structChild(sidecar, 'path'), row), 'sidecar.path') });
}

function visitMetadata(metadata: StructColumn, row: number, visitor: ActionVisitor): void {
  const format = structChild(metadata, 'format');
  const inFormat = (name: string): ColumnVector | null =>
    format?.kind === 'struct' ? structChild(format, name) : null;
  visitor.metadata?.({
    id: textCell(structChild(metadata, 'id'), row) ?? '',
    name: textCell(structChild(metadata, 'name'), row),
    description: textCell(structChild(metadata, 'description'), row),
    format: {
      provider: textCell(inFormat('provider'), row) ?? 'parquet',
      options: withoutNulls(textMapCell(inFormat('options'), row)),
    },
    schemaString: textCell(structChild(metadata, 'schemaString'), row) ?? NO_COLUMNS,
    partitionColumns: textListCell(structChild(metadata, 'partitionColumns'), row) ?? [],
    configuration: withoutNulls(textMapCell(structChild(metadata, 'configuration'), row)),
    createdTime: longCell(structChild(metadata, 'createdTime'), row),
  });
}

/** add or remove of a row. */
export function visitFileRow(
  batch: ColumnBatch,
  row: number,
  parsedStats: StructType | null,
  visitor: ActionVisitor,
): void {
  const add = action(batch, 'add', row);
  if (add !== null) {
    visitor.add?.({
      path: need(textCell(structChild(add, 'path'), row), 'add.path'),
      partitionValues: partitionValues(structChild(add, 'partitionValues'), row) ?? {},
      size: need(longCell(structChild(add, 'size'), row), 'add.size'),
      modificationTime: longCell(structChild(add, 'modificationTime'), row) ?? 0n,
      // A checkpoint's adds are state, not change.
      dataChange: booleanCell(structChild(add, 'dataChange'), row) === true,
      stats:
        parsedStats === null
          ? textCell(structChild(add, 'stats'), row)
          : parsedStatsText(structChild(add, 'stats_parsed'), row, parsedStats),
      tags: textMapCell(structChild(add, 'tags'), row),
      deletionVector: vector(structChild(add, 'deletionVector'), row),
      baseRowId: longCell(structChild(add, 'baseRowId'), row),
      defaultRowCommitVersion: longCell(structChild(add, 'defaultRowCommitVersion'), row),
      clusteringProvider: textCell(structChild(add, 'clusteringProvider'), row),
    });
  }
  const remove = action(batch, 'remove', row);
  if (remove !== null) {
    visitor.remove?.({
      path: need(textCell(structChild(remove, 'path'), row), 'remove.path'),
      deletionTimestamp: longCell(structChild(remove, 'deletionTimestamp'), row),
      dataChange: booleanCell(structChild(remove, 'dataChange'), row) === true,
      extendedFileMetadata: booleanCell(structChild(remove, 'extendedFileMetadata'), row) === true,
      partitionValues: partitionValues(structChild(remove, 'partitionValues'), row),
      size: longCell(structChild(remove, 'size'), row),
      stats: null,
      tags: null,
      deletionVector: vector(structChild(remove, 'deletionVector'), row),
      baseRowId: longCell(structChild(remove, 'baseRowId'), row),
      defaultRowCommitVersion: longCell(structChild(remove, 'defaultRowCommitVersion'), row),
    });
  }
}

function action(batch: ColumnBatch, name: string, row: number): StructColumn | null {
  const column = batch.columns[batch.names.indexOf(name)];
  return column?.kind === 'struct' && !isNull(column, row) ? column : null;
}

function partitionValues(column: ColumnVector | null, row: number): PartitionValues | null {
  return textMapCell(column, row);
}

function vector(column: ColumnVector | null, row: number): DeletionVectorDescriptor | null {
  if (column?.kind !== 'struct' || isNull(column, row)) return null;
  const storageType = textCell(structChild(column, 'storageType'), row);
  // Some writers fill the struct with NULLs instead of leaving it NULL.
  if (storageType === null) return null;
  if (storageType !== 'u' && storageType !== 'i' && storageType !== 'p') {
    throw new TypeError('deletionVector.storageType is none of u, i, p');
  }
  return {
    storageType,
    pathOrInlineDv: need(textCell(structChild(column, 'pathOrInlineDv'), row), 'deletionVector.pathOrInlineDv'),
    offset: intCell(structChild(column, 'offset'), row),
    sizeInBytes: need(intCell(structChild(column, 'sizeInBytes'), row), 'deletionVector.sizeInBytes'),
    cardinality: need(longCell(structChild(column, 'cardinality'), row), 'deletionVector.cardinality'),
  };
}

function withoutNulls(map: Record<string, string | null> | null): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(map ?? {})) if (value !== null) out[name] = value;
  return out;
}

function need<T>(value: T | null, what: string): T {
  if (value === null) throw new TypeError(`${what} is missing`);
  return value;
}
