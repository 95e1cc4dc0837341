/** `_sluice/paused.json`: tables that a person paused. They stay paused when the service starts again, on any machine. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { readLakeDocument } from '../runtime/lake-document.ts';

export const PAUSED_KEY = '_sluice/paused.json';
const FORMAT = 1;

interface Document {
  readonly formatVersion: number;
  readonly tables: readonly string[];
}

/** `schema.table` of each. @throws SluiceError FORMAT_NEWER */
export async function readPaused(lake: ObjectStore): Promise<ReadonlySet<string>> {
  return new Set((await readLakeDocument<Document>(lake, PAUSED_KEY, FORMAT))?.tables);
}

export async function writePaused(lake: ObjectStore, tables: ReadonlySet<string>): Promise<void> {
  const body = { formatVersion: FORMAT, tables: [...tables].toSorted() };
  await lake.put(PAUSED_KEY, Buffer.from(`${JSON.stringify(body)}\n`));
}
