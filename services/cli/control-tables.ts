/** Tables that are taken up and let go while the others go on. */
import { ReaderError } from '../reader/reader-error.ts';
import { textList, type ControlActions, type ControlBody } from '../runtime/control-routes.ts';
import { ConfigError } from '../runtime/errors.ts';
import type { Pipeline } from './pipeline.ts';
import { parseTableName, type TableName } from './table-name.ts';

export interface TableChange {
  readonly table: string;
  /** For the table's owner, where our role may not alter the publication. */
  readonly sql: string | null;
  readonly why: string | null;
}

/** `setPaused`: how a table of the stream's half is held and set going again, kept over restarts. */
export function tableControl(
  readerOf: () => NonNullable<Pipeline['reader']>,
  setPaused: (tables: readonly string[], pause: boolean) => Promise<unknown>,
): ControlActions {
  return {
    'add-tables': async (body) => {
      const changes: TableChange[] = [];
      for (const { schema, table: name } of named(body)) {
        const table = `${schema}.${name}`;
        try {
          await readerOf().addTable(schema, name);
          changes.push({ table, sql: null, why: null });
        } catch (error) {
          const denied = error instanceof ReaderError && error.code === 'PUBLICATION_MISSING_TABLE';
          if (!denied) throw error;
          changes.push({ table, sql: error.remedy.replace(/^as its owner: /, ''), why: error.message });
        }
      }
      return { changes };
    },
    'remove-tables': async (body) => {
      const changes: TableChange[] = [];
      for (const { schema, table: name } of named(body)) {
        changes.push({ table: `${schema}.${name}`, sql: await readerOf().removeTable(schema, name), why: null });
      }
      return { changes };
    },
    // A table that was let go is no part of a consistent cut any more, and verify does not compare it.
    'let-go': async (body) => setPaused(ids(body), true),
    'take-up': async (body) => setPaused(ids(body), false),
  };
}

function ids(body: ControlBody): readonly string[] {
  return named(body).map(({ schema, table }) => `${schema}.${table}`);
}

function named(body: ControlBody): readonly TableName[] {
  const tables = (textList(body, 'tables') ?? []).map(parseTableName);
  if (tables.length === 0) throw new ConfigError('no table was named', 'name at least one table');
  return tables;
}
