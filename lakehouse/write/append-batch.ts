/**
 * Adds rows to a table: no key is looked at, nothing is read, so that no other writer's commit but one of schema or
 * protocol can stand in its way. With a `txn` it is idempotent: a batch whose number is not above the table's is skipped.
 */
import { writeDataFiles } from '../merge/data-files.ts';
import { NO_ACTIONS } from '../table/actions.ts';
import type { Commit, MetadataAction } from '../table/actions.ts';
import type { ColumnBatch } from '../table/column.ts';
import { isNull } from '../table/column.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';

export interface AppendOptions extends CommitOptions {
  readonly txn?: { readonly appId: string; readonly version: bigint };
  /** Limits of one data file: default 1,000,000 rows and 256 MB of columns in memory. */
  readonly fileRowsMax?: number;
  readonly fileBytesMax?: number;
}

const NO_POSITIONS = { epoch: new Int32Array(0), ord: new Int32Array(0), lsnWords: new Uint32Array(0) };

/**
 * @param batch columns of the table's schema, in its order
 * @returns version null when the batch was already there, or has no rows and no txn
 * @throws TableError SCHEMA_INVALID | COMMIT_CONFLICT when the schema changed meanwhile | as commitTo
 */
export async function appendBatch(
  snapshot: Snapshot,
  batch: ColumnBatch,
  options: AppendOptions = {},
): Promise<CommitResult> {
  const { txn } = options;
  const isDone = (newest: Snapshot): boolean =>
    txn !== undefined && (newest.txns.get(txn.appId)?.version ?? -1n) >= txn.version;
  if (isDone(snapshot) || (batch.rowCount === 0 && txn === undefined)) return { version: null, snapshot, conflicts: 0 };
  assertFits(snapshot, batch);
  const nowMs = (options.now ?? Date.now)();
  const written = await writeDataFiles(
    {
      store: snapshot.store,
      metadata: snapshot.metadata,
      schema: snapshot.schema,
      codec: 'snappy',
      fileRowsMax: options.fileRowsMax ?? 1_000_000,
      fileBytesMax: options.fileBytesMax ?? 256 * 1024 * 1024,
      reserveOrdinal: null,
      apartBytes: Number.POSITIVE_INFINITY,
      nowMs,
      dataChange: true,
    },
    { batch, hashes: new Uint32Array(0), positions: NO_POSITIONS, softDeleted: null },
  );
  const proposal: Proposal = {
    operation: {
      name: 'WRITE',
      parameters: { mode: 'Append' },
      metrics: { numOutputRows: String(batch.rowCount), numFiles: String(written.adds.length) },
      isBlindAppend: true,
    },
    actions: {
      ...NO_ACTIONS,
      adds: written.adds,
      txns: txn === undefined ? [] : [{ ...txn, lastUpdated: BigInt(nowMs) }],
    },
  };
  const rebase = async (same: Proposal, newest: Snapshot, winners: readonly Commit[]): Promise<Proposal | null> => {
    if (isDone(newest)) return null;
    if (winners.some(({ metadata }) => metadata !== null && !isLaidOutAs(metadata, snapshot.metadata))) {
      throw new TableError(
        'COMMIT_CONFLICT',
        { table: snapshot.store.uri, version: newest.version },
        'the schema changed while the batch was written; nothing was committed: read the table again and append in its schema',
      );
    }
    return same;
  };
  return commitTo(snapshot, proposal, rebase, options);
}

/** Files written for the one table are files of the other. */
function isLaidOutAs(one: MetadataAction, other: MetadataAction): boolean {
  return (
    one.schemaString === other.schemaString &&
    JSON.stringify(one.partitionColumns) === JSON.stringify(other.partitionColumns)
  );
}

function assertFits(snapshot: Snapshot, batch: ColumnBatch): void {
  const place = { table: snapshot.store.uri, version: snapshot.version };
  const { fields } = snapshot.schema;
  const same = fields.length === batch.names.length && fields.every(({ name }, at) => batch.names[at] === name);
  if (!same) throw new TableError('SCHEMA_INVALID', place, "the batch's columns are not the table's, in its order");
  fields.forEach((field, at) => {
    const column = batch.columns[at];
    if (field.nullable || column === undefined || column.validity === null) return;
    for (let row = 0; row < column.length; row++) {
      if (isNull(column, row))
        throw new TableError(
          'SCHEMA_INVALID',
          place,
          `column "${field.name}" is NOT NULL and the batch has a NULL in it`,
        );
    }
  });
}
