/** Which tables a glob of the command line means. */
import type { Contract, TableContract } from '../engine/model.ts';
import { sourceName } from '../engine/source-name.ts';
import { matchesGlob } from './name-glob.ts';

/** Globs see both `orders` and `public.orders`. */
export function matchesTable(glob: string | null, contract: Contract, table: TableContract): boolean {
  if (glob === null) return true;
  const { schema, table: name } = sourceName(contract, table);
  return [table.name, name, `${schema}.${name}`].some((candidate) => matchesGlob(glob, candidate));
}
