/** The key of a table of the source, with its columns' types. */
import { describeTypes, findTable, listAttributes } from '../reader/catalog.ts';
import type { SourceSession } from '../reader/source.ts';
import { tableKey } from '../reader/table-key.ts';
import type { KeyColumn } from '../replay/backfill-range.ts';
import { ConfigError } from '../runtime/errors.ts';

/** @throws ConfigError when there is no such table, or it has no key */
export async function keyColumns(session: SourceSession, schema: string, table: string): Promise<readonly KeyColumn[]> {
  const found = await findTable(session, schema, table);
  if (found === null) throw new ConfigError(`the source has no table ${schema}.${table}`, 'check the name');
  const names = tableKey(found);
  const attributes = await listAttributes(session, found.oid);
  const wanted = names.flatMap((name) => attributes.filter((attribute) => attribute.name === name));
  if (wanted.length === 0) throw new ConfigError(`${schema}.${table} has no key`, 'use --where');
  const types = await describeTypes(session, wanted);
  return wanted.map(({ name }, i) => ({ name, pgType: types[i]?.pgType ?? 'text' }));
}
