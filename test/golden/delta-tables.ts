/** Delta tables that other engines wrote (../shared/delta-tables), for tests that read them in place. */
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../../../shared/delta-tables');

export type Corpus = 'golden' | 'dat' | 'kernel';

export interface DeltaTable {
  /** `golden/checkpoint`, or `kernel/table/part` where a folder holds several. */
  readonly name: string;
  /** The table's root. */
  readonly path: string;
  /** Folder of the expected rows, or null. */
  readonly expected: string | null;
}

/** False where this checkout stands alone: say so in one line and test nothing. */
export const HAS_DELTA_TABLES = existsSync(join(ROOT, 'MANIFEST.md'));

export function deltaTables(corpus: Corpus): readonly DeltaTable[] {
  if (!HAS_DELTA_TABLES) return [];
  return readdirSync(join(ROOT, corpus)).flatMap((name) => {
    const folder = join(ROOT, corpus, name);
    const expected = existsSync(join(folder, 'expected')) ? join(folder, 'expected') : null;
    const inner = existsSync(join(folder, 'delta')) ? join(folder, 'delta') : folder;
    const below = existsSync(join(inner, '_delta_log')) ? [] : tablesIn(inner);
    if (below.length === 0) return [{ name: `${corpus}/${name}`, path: inner, expected }];
    return below.map((table) => ({ name: `${corpus}/${name}/${table}`, path: join(inner, table), expected }));
  });
}

function tablesIn(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => existsSync(join(folder, name, '_delta_log')));
}

export function deltaTable(name: string): DeltaTable {
  const [corpus = ''] = name.split('/');
  const found = deltaTables(corpus as Corpus).find((table) => table.name === name);
  if (found === undefined) throw new Error(`no such table: ${name}`);
  return found;
}
