/** `orders`, `sales.orders`, or as SQL quotes what has dots of its own: `"My.Schema"."orders"`. */
import { ConfigError } from '../runtime/errors.ts';

export interface TableName {
  readonly schema: string;
  readonly table: string;
}

const REMEDY = 'write SCHEMA.TABLE, or "SCHEMA"."TABLE" where a name has a dot of its own';
const QUOTED = /^"((?:[^"]|"")+)"\."((?:[^"]|"")+)"$/;

export const isQuoted = (name: string): boolean => QUOTED.test(name);

/** As `parseTableName` reads it back. */
export function writeTableName({ schema, table }: TableName): string {
  if (!schema.includes('.') && !schema.startsWith('"')) return `${schema}.${table}`;
  return `"${schema.replaceAll('"', '""')}"."${table.replaceAll('"', '""')}"`;
}

/** Without a schema it is `public`. @throws ConfigError */
export function parseTableName(name: string): TableName {
  const [, quotedSchema, quotedTable] = QUOTED.exec(name) ?? [];
  if (quotedSchema !== undefined && quotedTable !== undefined)
    return { schema: quotedSchema.replaceAll('""', '"'), table: quotedTable.replaceAll('""', '"') };
  const dot = name.indexOf('.');
  const [schema, table] = dot < 0 ? ['public', name] : [name.slice(0, dot), name.slice(dot + 1)];
  if (schema === '' || table === '') throw new ConfigError(`'${name}' names no table`, REMEDY);
  return { schema, table };
}
