/**
 * A table whose columns in the lake are not what its contract says now (int became text at the source, and the contract
 * followed; or its key is a column of another name): its columns are changed in one commit that empties it. The whole table must
 * then be read again.
 */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import type { DeltaType, StructField, StructType } from '../../lakehouse/table/schema.ts';
import { retypeTable } from '../../lakehouse/upkeep/retype-table.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { ContractBook } from './contract-book.ts';
import type { ShapeFeed } from './shape-feed.ts';
import type { TablePlan } from './table-plan.ts';
import type { TableTarget } from './table-target.ts';

export interface Retyped {
  readonly column: string;
  readonly from: string;
  readonly to: string;
}

export interface RetypeParts {
  readonly schema: string;
  readonly table: string;
  readonly lake: ObjectStore;
  readonly shapes: ShapeFeed;
  readonly contracts: ContractBook;
  readonly target: TableTarget;
  /** Only says what would be changed. */
  readonly dryRun: boolean;
}

/**
 * Columns that get another type, and key columns that the table lacks; none = the table fits its contract.
 * @throws StreamError SCHEMA_CONFLICT, CONTRACT_FAILED where the contract does not fit the source: that is to be edited first
 */
export async function retypeForContract(parts: RetypeParts): Promise<readonly Retyped[]> {
  const { shapes, contracts, target } = parts;
  await shapes.refresh();
  const shape = shapes.latest(parts.schema, parts.table);
  const standing = await target.schema();
  if (shape === null || standing === null) return [];
  const fitting = await fits(() => contracts.current(shape, standing, null));
  if (fitting !== null && missingKeys(standing, fitting).length === 0) return [];
  const wanted = await contracts.current(shape, null, null);
  const types = changedTypes(standing, wanted);
  const added = missingKeys(standing, wanted);
  const changed = standing.fields.flatMap(({ name, type }) => {
    const to = types.get(name.toLowerCase());
    return to === undefined ? [] : [{ column: name, from: text(type), to: text(to) }];
  });
  const all = [...changed, ...added.map(({ name, type }) => ({ column: name, from: 'missing', to: text(type) }))];
  if (all.length > 0 && !parts.dryRun)
    await retypeTable(
      subStore(parts.lake, target.folder),
      { types, added },
      { parameters: { 'sluice.retyped': JSON.stringify(all.map(({ column }) => column.toLowerCase())) } },
    );
  return all;
}

/** The plan; null where the contract and the lake's types do not go together. */
async function fits(plan: () => Promise<TablePlan>): Promise<TablePlan | null> {
  try {
    return await plan();
  } catch (error) {
    if (error instanceof StreamError && error.code === 'SCHEMA_CONFLICT') return null;
    throw error;
  }
}

/** Other columns come with the first row that has them; a merge wants its key from the beginning. */
function missingKeys(standing: StructType, { schema, keyColumns }: TablePlan): readonly StructField[] {
  const names = new Set(standing.fields.map(({ name }) => name.toLowerCase()));
  return schema.fields.filter(({ name }) => keyColumns.includes(name) && !names.has(name.toLowerCase()));
}

function changedTypes(standing: StructType, { schema }: TablePlan): ReadonlyMap<string, DeltaType> {
  const types = new Map<string, DeltaType>();
  for (const { name, type } of schema.fields) {
    const old = standing.fields.find((field) => field.name.toLowerCase() === name.toLowerCase());
    if (old !== undefined && text(old.type) !== text(type)) types.set(name.toLowerCase(), type);
  }
  return types;
}

function text(type: DeltaType): string {
  return typeof type === 'string' ? type : JSON.stringify(type);
}
