/**
 * Text that a file does not mark as text. DuckDB takes it for bytes, and a cast of bytes to text gives escapes (`\xC3\xA9`) in
 * silence; the other way round it fails at the first letter that is not ASCII. Older engines write such files.
 */
import type { DeltaType, StructField } from '../table/schema.ts';
import { quoteText, type DuckDbSession } from './duckdb.ts';

type Kind = 'string' | 'binary';

/** Whether a file of `paths` may hold as bytes what the table calls text, or as text what it calls bytes, at any depth. */
export async function mixesTextAndBytes(
  session: DuckDbSession,
  paths: readonly string[],
  fields: readonly StructField[],
): Promise<boolean> {
  const kinds = new Map<string, Set<Kind>>();
  for (const field of fields) collect(field.name, field.type, kinds);
  if (kinds.size === 0) return false;
  const files = `[${paths.map(quoteText).join(', ')}]`;
  const stored = await session.query(
    `SELECT DISTINCT lower(name), duckdb_type FROM parquet_schema(${files}) WHERE duckdb_type IN ('BLOB', 'VARCHAR')`,
  );
  for await (const rows of stored.rows)
    for (const [name, type] of rows)
      if (typeof name === 'string' && kinds.get(name)?.has(type === 'BLOB' ? 'string' : 'binary') === true) return true;
  return false;
}

/** Names that an element of a list has in files. */
const ELEMENTS = ['element', 'item', 'array', 'array_element'];

/** By the leaf's own name alone: two leaves of one name count as both kinds, which costs speed and nothing else. */
function collect(name: string, type: DeltaType, kinds: Map<string, Set<Kind>>): void {
  if (typeof type === 'string') {
    if (type !== 'string' && type !== 'binary') return;
    const key = name.toLowerCase();
    const found = kinds.get(key) ?? new Set();
    kinds.set(key, found.add(type));
    return;
  }
  switch (type.type) {
    case 'struct':
      for (const field of type.fields) collect(field.name, field.type, kinds);
      return;
    case 'array':
      for (const element of ELEMENTS) collect(element, type.elementType, kinds);
      return;
    case 'map':
      collect('key', type.keyType, kinds);
      collect('value', type.valueType, kinds);
      return;
  }
}
