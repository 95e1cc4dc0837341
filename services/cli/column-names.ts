/** Whether the lake can keep a table's columns apart, before anything is made. Pure. */
import { lakeColumnName, lakeNameClashes } from '../../contracts/engine/lake-name.ts';
import { leaveOut } from '../reader/table-globs.ts';

export interface NameFault {
  readonly message: string;
  readonly remedy: string;
}

/** How the lake's own columns begin: those that every table gets, and those of soft deletes and of tables without key. */
const OWN = '_sluice_';

export function columnFault(
  { schema, table }: { readonly schema: string; readonly table: string },
  columns: readonly string[],
): NameFault | null {
  const remedy = `rename it at the source, publish the table with a column list that leaves it out, or leave the table out: ${leaveOut({ schema, table })}`;
  const own = columns.find((name) => lakeColumnName(name).toLowerCase().startsWith(OWN));
  if (own !== undefined) return { message: `column "${own}" begins as the lake's own columns do (_sluice_)`, remedy };
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
