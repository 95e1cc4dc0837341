/** `_sluice/paused.json`: tables that a person paused. They stay paused when the service starts again, on any machine. */
import { StoreError, type ObjectStore } from '../../lakehouse/store/store.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';

export const PAUSED_KEY = '_sluice/paused.json';
const FORMAT = 1;

/** `schema.table` of each. @throws SluiceError FORMAT_NEWER */
export async function readPaused(lake: ObjectStore): Promise<ReadonlySet<string>> {
  let text: string;
  try {
    text = Buffer.from(await lake.get(PAUSED_KEY)).toString('utf8');
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') return new Set();
    throw error;
  }
  const { formatVersion, tables } = JSON.parse(text) as { formatVersion: number; tables: string[] };
  if (formatVersion > FORMAT)
    throw new SluiceError('FORMAT_NEWER', `${PAUSED_KEY} in the lake has format ${formatVersion}`, {
      exit: ExitCode.namedState,
      remedy: 'a newer sluice wrote it: upgrade this one',
    });
  return new Set(tables);
}

export async function writePaused(lake: ObjectStore, tables: ReadonlySet<string>): Promise<void> {
  const body = { formatVersion: FORMAT, tables: [...tables].toSorted() };
  await lake.put(PAUSED_KEY, Buffer.from(`${JSON.stringify(body)}\n`));
}
