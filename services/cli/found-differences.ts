/**
 * `_sluice/differences/<schema>/<table>.json`: what the last comparison of a table found. A difference stays one until a whole
 * comparison finds nothing, over restarts, and on whichever worker has the table. One object a table: workers have no object in common.
 */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { tableFolder } from '../ingest/table-target.ts';
import { readLakeDocument } from '../runtime/lake-document.ts';
import { parseTableName } from './table-name.ts';

export interface FoundDifferences {
  readonly mismatches: number;
  readonly atMs: number;
}

interface Document extends FoundDifferences {
  readonly formatVersion: number;
}

const FORMAT = 1;

export function differencesKey(table: string): string {
  const { schema, table: name } = parseTableName(table);
  return `_sluice/differences/${tableFolder(schema, name)}.json`;
}

/** Null: none were found. @throws SluiceError FORMAT_NEWER */
export async function readDifferences(lake: ObjectStore, table: string): Promise<FoundDifferences | null> {
  const found = await readLakeDocument<Document>(lake, differencesKey(table), FORMAT);
  return found === null ? null : { mismatches: found.mismatches, atMs: found.atMs };
}

/** Null takes it back. */
export async function writeDifferences(
  lake: ObjectStore,
  table: string,
  found: FoundDifferences | null,
): Promise<void> {
  const key = differencesKey(table);
  if (found === null) return lake.delete([key]);
  await lake.put(key, Buffer.from(`${JSON.stringify({ formatVersion: FORMAT, ...found })}\n`));
}
