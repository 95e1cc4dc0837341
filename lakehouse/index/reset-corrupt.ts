import { IndexError } from './index-error.ts';
import type { KeyIndex } from './key-index.ts';

/** A damaged index is forgotten (true); the next use builds it anew from the table. */
export async function resetWhenCorrupt(index: KeyIndex, use: (index: KeyIndex) => Promise<void>): Promise<boolean> {
  try {
    await use(index);
    return false;
  } catch (error) {
    if (!(error instanceof IndexError) || error.code !== 'INDEX_CORRUPT') throw error;
    await index.reset();
    return true;
  }
}
