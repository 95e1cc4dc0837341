/**
 * Gives columns of a table other types. A Delta column keeps its type while a file of it stands, so the table is emptied in the
 * same commit, by a writer that fills it again; the old rows stay in the history, under the schema that they were written with.
 */
import { NO_ACTIONS, removeOf } from '../table/actions.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import type { ObjectStore } from '../store/store.ts';
import { protocolForType } from '../table/evolve.ts';
import { schemaText } from '../table/schema-json.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';

export interface RetypeOptions extends CommitOptions {
  /** Named in the history, with the operation REPLACE TABLE. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** `types`: of columns, by their names in lower case; the others stay. @throws TableError COMMIT_CONTENTION | … */
export async function retypeTable(
  store: ObjectStore,
  types: ReadonlyMap<string, DeltaType>,
  options: RetypeOptions,
): Promise<CommitResult> {
  const current = await openSnapshot(store);
  const nowMs = (options.now ?? Date.now)();
  const propose = (at: Snapshot): Proposal => proposalFor(at, types, nowMs, options);
  return commitTo(current, propose(current), (_proposal, newest) => Promise.resolve(propose(newest)), options);
}

function proposalFor(
  { metadata, protocol, schema, files }: Snapshot,
  types: ReadonlyMap<string, DeltaType>,
  nowMs: number,
  options: RetypeOptions,
): Proposal {
  const retyped: StructType = {
    type: 'struct',
    fields: schema.fields.map((field) => ({ ...field, type: types.get(field.name.toLowerCase()) ?? field.type })),
  };
  const removes = [...files].map((file) => removeOf(file, nowMs, true));
  return {
    operation: {
      name: 'REPLACE TABLE',
      parameters: options.parameters,
      metrics: { numAddedFiles: '0', numRemovedFiles: String(removes.length) },
    },
    actions: {
      ...NO_ACTIONS,
      protocol: protocolForType(protocol, retyped),
      metadata: { ...metadata, schemaString: schemaText(retyped) },
      removes,
    },
  };
}
