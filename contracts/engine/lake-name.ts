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

/** Columns that every table in the lake gets, and those that a change feed adds to its rows. */
const RESERVED: ReadonlySet<string> = new Set([
  '_sluice_lsn',
  '_sluice_ord',
  '_sluice_epoch',
  '_sluice_committed_at',
  '_sluice_deleted',
  '_change_type',
  '_commit_version',
  '_commit_timestamp',
]);

export const isReservedName = (sourceName: string): boolean => RESERVED.has(lakeColumnName(sourceName).toLowerCase());
