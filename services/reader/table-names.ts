/** Whether the lake and the log can keep tables apart: their folders' names must differ by more than case. Pure. */
import { lakeTableName } from '../../contracts/engine/lake-name.ts';
import { dataTopic, quarantineTopic } from '../log/topics.ts';
import { ReaderError } from './reader-error.ts';
import { quoteTable } from './sql-text.ts';
import { leaveOut } from './table-globs.ts';

interface Named {
  readonly schema: string;
  readonly table: string;
}

/** Rows that violate a contract stand beside the table, under this ending. */
const QUARANTINE = '__quarantine';

const folderOf = ({ schema, table }: Named): string => `${lakeTableName(schema)}/${lakeTableName(table)}`.toLowerCase();
const label = ({ schema, table }: Named): string => `${schema}.${table}`;

/**
 * Why `table` cannot be taken beside `others`: one folder, one topic or one name for two tables would mix their rows. Or what
 * stands in the lake where its own would have to.
 */
export function nameClash(table: Named, others: readonly Named[], logKind: LogKind): ReaderError | null {
  const own = ownFault(table);
  if (own !== null) return clash(table, own, 'rename it, or');
  const folder = folderOf(table);
  const topic = topicOf(table);
  for (const other of others) {
    if (other.schema === table.schema && other.table === table.table) continue;
    const both = `tables ${quoteTable(table.schema, table.table)} and ${quoteTable(other.schema, other.table)}`;
    const theirs = folderOf(other);
    if (theirs === folder) return clash(table, `${both} have one folder in the lake, where case does not count`);
    // The table keeps its name; only what would stand in its quarantine's place goes.
    if (folder === theirs + QUARANTINE)
      return clash(table, `table ${label(table)} has the folder of the quarantine of ${label(other)} in the lake`);
    if (topic === topicOf(other)) return clash(table, `${both} have one name, ${label(table)}, and one topic`);
    if (topic === quarantineTopic('', other.schema, other.table))
      return clash(table, `table ${label(table)} has the topic of the quarantine of ${label(other)}`);
    if (logKind === 'kafka' && asMetric(topic) === asMetric(topicOf(other)))
      return clash(
        table,
        `${both} have topics that Kafka takes for one: in its metrics "." becomes "_"`,
        'give one of the two a pipeline of another name, and here',
      );
  }
  return null;
}

/** What the log is: Kafka refuses a topic whose name differs from another's by "." for "_" only, for the sake of its metrics. */
export type LogKind = 'embedded' | 'kafka';

const asMetric = (topic: string): string => topic.replaceAll('.', '_');
const topicOf = ({ schema, table }: Named): string => dataTopic('', schema, table);

/** `.` and `..` name other folders, and one schema's folder is the pipeline's own. */
function ownFault({ schema, table }: Named): string | null {
  const wrong = [schema, table].find((part) => part === '.' || part === '..');
  const name = quoteTable(schema, table);
  if (wrong !== undefined) return `table ${name}: no folder in the lake can have the name "${wrong}"`;
  if (schema.toLowerCase() !== OWN_FOLDER) return null;
  return `table ${name}: the lake keeps the pipeline's own files in the folder ${OWN_FOLDER}`;
}

const OWN_FOLDER = '_sluice';

function clash(table: Named, message: string, first = 'rename one of the two, or'): ReaderError {
  return new ReaderError('TABLE_NAME_CLASH', message, { remedy: `${first} leave it out: ${leaveOut(table)}` });
}
