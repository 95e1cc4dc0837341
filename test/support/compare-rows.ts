/** Two sets of rows compared by key, every value as text: source as PostgreSQL prints it, lake as its reader gives it. */
export type TextRow = Readonly<Record<string, string | null>>;

export interface RowDifferences {
  /** Keys of the source that the lake lacks, keys that only the lake has, keys whose rows differ (and where). */
  readonly missing: readonly string[];
  readonly extra: readonly string[];
  readonly different: readonly { readonly key: string; readonly columns: readonly string[] }[];
  /** Keys that stand more than once in the lake. */
  readonly doubled: readonly string[];
}

/** Columns are those of the source's rows; further columns of the lake (metadata) are not compared. */
export function compareRows(
  source: Iterable<TextRow>,
  lake: Iterable<TextRow>,
  keyColumns: readonly string[],
): RowDifferences {
  const keyOf = (row: TextRow): string => JSON.stringify(keyColumns.map((column) => row[column] ?? null));
  const found = new Map<string, TextRow>();
  const doubled: string[] = [];
  for (const row of lake) {
    const key = keyOf(row);
    if (found.has(key)) doubled.push(key);
    found.set(key, row);
  }
  const missing: string[] = [];
  const different: { key: string; columns: string[] }[] = [];
  for (const row of source) {
    const key = keyOf(row);
    const other = found.get(key);
    if (other === undefined) {
      missing.push(key);
      continue;
    }
    found.delete(key);
    const columns = Object.keys(row).filter((column) => row[column] !== other[column]);
    if (columns.length > 0) different.push({ key, columns });
  }
  return { missing, extra: [...found.keys()], different, doubled };
}

export const NO_DIFFERENCES: RowDifferences = { missing: [], extra: [], different: [], doubled: [] };
