/** Contracts as files: one `<schema>.<table>.odcs.yaml` a table, in one folder. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { contractFileName } from '../../contracts/engine/infer.ts';

export interface ContractText {
  /** File name, for messages. */
  readonly file: string;
  readonly text: string;
}

/** PORT: where the tables' contracts are kept. */
export interface ContractFiles {
  /** Null when the table has none. */
  load(schema: string, table: string): Promise<ContractText | null>;
  save(schema: string, table: string, text: string): Promise<void>;
}

export function contractFolder(folder: string): ContractFiles {
  const pathOf = (schema: string, table: string): string => join(folder, contractFileName({ schema, table }));
  return {
    async load(schema, table) {
      const file = pathOf(schema, table);
      try {
        return { file, text: await readFile(file, 'utf8') };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
        throw error;
      }
    },
    async save(schema, table, text) {
      const file = pathOf(schema, table);
      await mkdir(folder, { recursive: true });
      // Whole or not at all: a person's editor may be looking.
      const half = `${file}.${randomUUID()}.part`;
      await writeFile(half, text);
      await rename(half, file);
    },
  };
}
