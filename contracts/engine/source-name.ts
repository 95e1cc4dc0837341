/** Which table of the source a contract's entry means. */
import type { Contract, TableContract } from './model.ts';

export interface SourceName {
  readonly schema: string;
  readonly table: string;
}

/** `physicalName` with its schema; without one, the postgres server's schema, else `public`. */
export function sourceName(contract: Contract, table: TableContract): SourceName {
  const dot = table.physicalName.indexOf('.');
  if (dot > 0) return { schema: table.physicalName.slice(0, dot), table: table.physicalName.slice(dot + 1) };
  const server = contract.servers.find(({ type }) => type === 'postgres' || type === 'postgresql');
  const schema = server?.settings.get('schema');
  return { schema: typeof schema === 'string' ? schema : 'public', table: table.physicalName };
}
