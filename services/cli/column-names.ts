/** Whether the lake can keep a table's columns apart, before anything is made. Pure. */
import { lakeColumnName, lakeNameClashes } from '../../contracts/engine/lake-name.ts';
import { leaveOut } from '../reader/table-globs.ts';

export interface NameFault {
  readonly message: string;
  readonly remedy: string;
}

/** The columns that every table in the lake gets. */
const OWN: readonly string[] = ['_sluice_epoch', '_sluice_lsn', '_sluice_ord', '_sluice_committed_at'];

export function columnFault(
  { schema, table }: { readonly schema: string; readonly table: string },
  columns: readonly string[],
): NameFault | null {
  const remedy = `rename it at the source, publish the table with a column list that leaves it out, or leave the table out: ${leaveOut({ schema, table })}`;
  const own = columns.find((name) => OWN.includes(lakeColumnName(name).toLowerCase()));
  if (own !== undefined)
    return { message: `column "${own}" has the name of a column that every table in the lake gets`, remedy };
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
