/** Whether the lake can keep tables apart: their folders' names must differ by more than case. Pure. */
import { lakeTableName } from '../../contracts/engine/lake-name.ts';
import { ReaderError } from './reader-error.ts';

interface Named {
  readonly schema: string;
  readonly table: string;
}

/** Rows that violate a contract stand beside the table, under this ending. */
const QUARANTINE = '__quarantine';

const folderOf = ({ schema, table }: Named): string => `${lakeTableName(schema)}/${lakeTableName(table)}`.toLowerCase();
const label = ({ schema, table }: Named): string => `${schema}.${table}`;

/** Why `table` cannot be taken beside `others`: one folder for two tables would mix their rows. */
export function nameClash(table: Named, others: readonly Named[]): ReaderError | null {
  const folder = folderOf(table);
  for (const other of others) {
    if (label(other) === label(table)) continue;
    const theirs = folderOf(other);
    if (theirs === folder)
      return clash(
        table,
        `tables ${label(table)} and ${label(other)} have one folder in the lake, where case does not count`,
      );
    // The table keeps its name; only what would stand in its quarantine's place goes.
    if (folder === theirs + QUARANTINE)
      return clash(table, `table ${label(table)} has the folder of the quarantine of ${label(other)} in the lake`);
  }
  return null;
}

function clash(table: Named, message: string): ReaderError {
  return new ReaderError('TABLE_NAME_CLASH', message, {
    remedy: `rename one of the two, or leave one out: source.tables: ["!${label(table)}"]`,
  });
}
