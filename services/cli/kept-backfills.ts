/** `_sluice/backfills.json`: walks that are not at their end. A restart of the service goes on with them, on any machine. */
import { StoreError, type ObjectStore } from '../../lakehouse/store/store.ts';
import type { KeptBackfill } from '../replay/backfill-jobs.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';

const KEY = '_sluice/backfills.json';
const FORMAT = 1;

/** @throws SluiceError FORMAT_NEWER */
export async function readBackfills(lake: ObjectStore): Promise<readonly KeptBackfill[]> {
  let text: string;
  try {
    text = Buffer.from(await lake.get(KEY)).toString('utf8');
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') return [];
    throw error;
  }
  const { formatVersion, walks } = JSON.parse(text) as { formatVersion: number; walks: KeptBackfill[] };
  if (formatVersion > FORMAT)
    throw new SluiceError('FORMAT_NEWER', `${KEY} in the lake has format ${formatVersion}`, {
      exit: ExitCode.namedState,
      remedy: 'a newer sluice wrote it: upgrade this one',
    });
  return walks;
}

export async function writeBackfills(lake: ObjectStore, walks: readonly KeptBackfill[]): Promise<void> {
  await lake.put(KEY, Buffer.from(`${JSON.stringify({ formatVersion: FORMAT, walks })}\n`));
}
