/**
 * Tables that came after the first start, by `source.newTables`: taken, announced, or ignored. One that is named in
 * source.tables without a wildcard was asked for. Where the role may not publish a later table it is announced, with the SQL
 * for the owner, and the others start.
 */
import type { SourceTable } from './catalog.ts';
import {
  addTablesSql,
  ensurePublication,
  findPublication,
  missingTables,
  type EnsuredPublication,
} from './publication.ts';
import { ReaderError } from './reader-error.ts';
import type { ReaderOptions } from './reader-options.ts';
import type { TableState } from './reader-state.ts';
import type { SourceSession } from './source.ts';
import { isExact, matchesGlobs } from './table-globs.ts';
import type { SelectedTables } from './table-selection.ts';

export interface PublishedSelection extends EnsuredPublication {
  readonly selected: SelectedTables;
  /** `schema.table` of each that waits for somebody. */
  readonly announced: readonly string[];
}

const nameOf = ({ schema, table }: { readonly schema: string; readonly table: string }): string => `${schema}.${table}`;

/** Whether a glob without wildcards names the table. */
export function isNamed(globs: readonly string[], schema: string, table: string): boolean {
  return matchesGlobs(globs.filter(isExact), schema, table);
}

/** `known`: the tables of an earlier start; null = this is the first. */
export async function publishSelected(
  session: SourceSession,
  options: ReaderOptions,
  all: SelectedTables,
  known: readonly TableState[] | null,
): Promise<PublishedSelection> {
  const isLater = (table: SourceTable): boolean =>
    known !== null && !known.some((state) => nameOf(state) === nameOf(table) && state.phase !== 'removed');
  const publication = await findPublication(session, options.publication);
  const isPublished = (table: SourceTable): boolean =>
    publication !== null && !publication.allTables && missingTables(publication, [table]).length === 0;
  const waits = (table: SourceTable): boolean => {
    if (!isLater(table) || isNamed(options.tables, table.schema, table.table) || options.newTables === 'backfill')
      return false;
    return options.newTables === 'ignore' || !isPublished(table);
  };
  let taken = all.taken.filter((table) => !waits(table));
  const announced = options.newTables === 'ignore' ? [] : all.taken.filter(waits).map(nameOf);
  const ensure = (): Promise<EnsuredPublication> =>
    ensurePublication(
      session,
      options.publication,
      taken,
      taken.some(({ relkind }) => relkind === 'p'),
    );
  let ensured: EnsuredPublication;
  try {
    ensured = await ensure();
  } catch (error) {
    const later = taken.filter((table) => isLater(table) && !isPublished(table));
    const denied = error instanceof ReaderError && error.code === 'PUBLICATION_MISSING_TABLE';
    if (!denied || later.length === 0) throw error;
    taken = taken.filter((table) => !later.includes(table));
    announced.push(...later.map(nameOf));
    for (const table of later)
      options.logger.warn(
        { table: nameOf(table), remedy: `as its owner: ${addTablesSql(options.publication, [table])};` },
        `table ${nameOf(table)} is new and cannot be published: ${error.message}`,
      );
    ensured = await ensure();
  }
  return { ...ensured, selected: { ...all, taken }, announced };
}
