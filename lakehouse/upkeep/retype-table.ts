/**
 * Gives columns of a table other types, and such as it lacks. A Delta column keeps its type while a file of it stands, so the
 * table is emptied in the same commit, by a writer that fills it again; the old rows stay in the history, under the schema that
 * they were written with.
 */
import { evolveTable } from '../merge/evolve-table.ts';
import { NO_ACTIONS, removeOf } from '../table/actions.ts';
import type { CommitActions } from '../table/actions.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import type { ObjectStore } from '../store/store.ts';
import { protocolForType } from '../table/evolve.ts';
import { schemaText } from '../table/schema-json.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';

export interface RetypeOptions extends CommitOptions {
  /** Named in the history, with the operation REPLACE TABLE. */
  readonly parameters: Readonly<Record<string, string>>;
}

export interface NewColumns {
  /** Types of columns that stand, by their names in lower case; the others stay. */
  readonly types: ReadonlyMap<string, DeltaType>;
  /** Columns that the table does not have yet. */
  readonly added: readonly StructField[];
}

/** @throws TableError COMMIT_CONTENTION | … */
export async function retypeTable(
  store: ObjectStore,
  columns: NewColumns,
  options: RetypeOptions,
): Promise<CommitResult> {
  const current = await openSnapshot(store);
  const nowMs = (options.now ?? Date.now)();
  const propose = (at: Snapshot): Proposal => proposalFor(at, columns, nowMs, options);
  return commitTo(current, propose(current), (_proposal, newest) => Promise.resolve(propose(newest)), options);
}

function proposalFor(at: Snapshot, columns: NewColumns, nowMs: number, options: RetypeOptions): Proposal {
  const { metadata, protocol } = changedTable(at, columns);
  const removes = [...at.files].map((file) => removeOf(file, nowMs, true));
  return {
    operation: {
      name: 'REPLACE TABLE',
      parameters: options.parameters,
      metrics: { numAddedFiles: '0', numRemovedFiles: String(removes.length) },
    },
    actions: { ...NO_ACTIONS, protocol, metadata, removes },
  };
}

function changedTable(at: Snapshot, { types, added }: NewColumns): Pick<CommitActions, 'protocol' | 'metadata'> {
  const standing = at.schema.fields.map((field) => ({
    ...field,
    type: types.get(field.name.toLowerCase()) ?? field.type,
  }));
  const schema: StructType = { type: 'struct', fields: [...standing, ...added] };
  if (added.length > 0) return evolveTable(at, { schema, added, batchIndex: [] });
  return {
    protocol: protocolForType(at.protocol, schema),
    metadata: { ...at.metadata, schemaString: schemaText(schema) },
  };
}
