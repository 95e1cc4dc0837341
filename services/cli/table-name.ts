/** `orders` or `sales.orders`, as a person names a table of the source. */
import { ConfigError } from '../runtime/errors.ts';

export interface TableName {
  readonly schema: string;
  readonly table: string;
}

/** Without a schema it is `public`. @throws ConfigError */
export function parseTableName(name: string): TableName {
  const dot = name.indexOf('.');
  const [schema, table] = dot < 0 ? ['public', name] : [name.slice(0, dot), name.slice(dot + 1)];
  if (schema === '' || table === '') throw new ConfigError(`'${name}' names no table`, 'write SCHEMA.TABLE');
  return { schema, table };
}
