/** Small JSON documents of ours in the lake, each with a `formatVersion`: an older one is read, a newer one refused by name. */
import { getText } from '../../lakehouse/store/get-text.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { ExitCode, SluiceError } from './errors.ts';

/** Null: it was never written. `format`: the newest that this program reads. @throws SluiceError FORMAT_NEWER; StoreError */
export async function readLakeDocument<T extends { readonly formatVersion: number }>(
  lake: ObjectStore,
  key: string,
  format: number,
): Promise<T | null> {
  const text = await getText(lake, key);
  if (text === null) return null;
  const document = JSON.parse(text) as T;
  if (document.formatVersion > format)
    throw new SluiceError(
      'FORMAT_NEWER',
      `${key} in the lake has format ${document.formatVersion}; this sluice reads ${format}`,
      { exit: ExitCode.namedState, remedy: 'a newer sluice wrote it: upgrade this one' },
    );
  return document;
}
