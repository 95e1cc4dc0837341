/** Whether the lake can keep a table's columns apart, before anything is made. Pure. */
import { isReservedName, lakeNameClashes } from '../../contracts/engine/lake-name.ts';
import { leaveOut } from '../reader/table-globs.ts';

export interface NameFault {
  readonly message: string;
  readonly remedy: string;
}

export function columnFault(
  { schema, table }: { readonly schema: string; readonly table: string },
  columns: readonly string[],
): NameFault | null {
  const remedy = `rename it at the source, publish the table with a column list that leaves it out, or leave the table out: ${leaveOut({ schema, table })}`;
  const own = columns.find(isReservedName);
  if (own !== undefined)
    return { message: `column "${own}" has a name that the lake keeps for its own columns`, remedy };
  const [clash] = lakeNameClashes(columns);
  if (clash === undefined) return null;
  const [first, second] = clash;
  return {
    message: `columns "${first}" and "${second}" have one name in the lake (NAME_CLASH), where case does not count`,
    remedy: remedy.replace('rename it', 'rename one'),
  };
}

/** A table of no columns has rows that nothing tells apart, and no Delta table can hold it. */
export function noColumns({ schema, table }: { readonly schema: string; readonly table: string }): NameFault {
  return {
    message: 'it has no columns that could be sent',
    remedy: `add one, or leave the table out: ${leaveOut({ schema, table })}`,
  };
}
