/** Rows as texts to compare: every value exact, map entries sorted, rows sorted. */
import { jsonRow } from '../../lakehouse/read/json-value.ts';
import type { ColumnBatch } from '../../lakehouse/table/column.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';

/** One row's text with map entries in a fixed order: they have none of their own. */
export function canonicalText(text: string): string {
  if (!text.includes('{"key":')) return text;
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) {
      const items = value.map(sorted);
      const entries = items.every(
        (item) => item !== null && typeof item === 'object' && 'key' in item && 'value' in item,
      );
      return entries ? items.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) : items;
    }
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, sorted(member)]));
  };
  // Numbers are quoted first, so that none loses digits on the way through JSON.parse.
  const quoted = text.replace(/([:[,])(-?\d[\d.eE+-]*)(?=[,\]}])/g, '$1"#$2"');
  return JSON.stringify(sorted(JSON.parse(quoted)));
}

export async function canonicalRows(
  schema: StructType,
  batches: AsyncIterable<ColumnBatch> | Iterable<ColumnBatch>,
): Promise<string[]> {
  const rows: string[] = [];
  for await (const batch of batches)
    for (let row = 0; row < batch.rowCount; row++) rows.push(canonicalText(jsonRow(schema, batch, row)));
  return rows.sort();
}
