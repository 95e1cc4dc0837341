/** `_sluice/backfills.json`: walks that are not at their end. A restart of the service goes on with them, on any machine. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { KeptBackfill } from '../replay/backfill-jobs.ts';
import { readLakeDocument } from '../runtime/lake-document.ts';

const KEY = '_sluice/backfills.json';
const FORMAT = 1;

interface Document {
  readonly formatVersion: number;
  readonly walks: readonly KeptBackfill[];
}

/** @throws SluiceError FORMAT_NEWER */
export async function readBackfills(lake: ObjectStore): Promise<readonly KeptBackfill[]> {
  return (await readLakeDocument<Document>(lake, KEY, FORMAT))?.walks ?? [];
}

export async function writeBackfills(lake: ObjectStore, walks: readonly KeptBackfill[]): Promise<void> {
  await lake.put(KEY, Buffer.from(`${JSON.stringify({ formatVersion: FORMAT, walks })}\n`));
}
