/**
 * Names in the lake are the source's, except for the characters that Delta forbids without column mapping; those become `_`
 * and the original stands in the field's metadata.
 */
const FORBIDDEN = /[ ,;{}()\n\t=]/g;

export function lakeColumnName(sourceName: string): string {
  return sourceName.replaceAll(FORBIDDEN, '_');
}

/** For folders: a slash, too. */
export function lakeTableName(sourceName: string): string {
  return lakeColumnName(sourceName).replaceAll('/', '_');
}

/** Pairs of source names that the lake cannot keep apart, because Delta's names differ by more than case only. */
export function lakeNameClashes(sourceNames: readonly string[]): [string, string][] {
  const seen = new Map<string, string>();
  const clashes: [string, string][] = [];
  for (const name of sourceNames) {
    const folded = lakeColumnName(name).toLowerCase();
    const earlier = seen.get(folded);
    if (earlier === undefined) seen.set(folded, name);
    else clashes.push([earlier, name]);
  }
  return clashes;
}

/** How the lake's own columns begin: those that every table gets, those of soft deletes and of tables without a key. */
const OWN_PREFIX = '_sluice_';

/** Columns that a change feed adds to a table's rows. */
const CHANGE_FEED: ReadonlySet<string> = new Set(['_change_type', '_commit_version', '_commit_timestamp']);

/** Whether a source's column would have a name that the lake keeps for columns of its own. Case does not count. */
export function isReservedName(sourceName: string): boolean {
  const folded = lakeColumnName(sourceName).toLowerCase();
  return folded.startsWith(OWN_PREFIX) || CHANGE_FEED.has(folded);
}
