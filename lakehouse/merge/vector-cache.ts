/** Decoded deletion vectors of the files that batches touch, within a bound of bytes; the least recently used go first. */
import { withRetry } from '../store/retry.ts';
import { isRetriable, type ObjectStore } from '../store/store.ts';
import { vectorId, type AddFile } from '../table/actions.ts';
import { readDeletionVector } from '../table/deletion-vector.ts';
import type { RowSet } from '../table/row-bitmap.ts';

const BYTES_MAX = 64 * 1024 * 1024;
const PARALLEL = 16;
export const NO_ROWS: RowSet = new Uint32Array(0);

export interface VectorCache {
  /** Deleted rows of each file that has some, by the file's path. */
  rowsOf(store: ObjectStore, files: Iterable<AddFile>): Promise<ReadonlyMap<string, RowSet>>;
  /** Remembers a vector just written. */
  put(file: AddFile, rows: RowSet): void;
}

export function createVectorCache(bytesMax = BYTES_MAX): VectorCache {
  const cache = new Map<string, RowSet>();
  let bytes = 0;

  function put(id: string, rows: RowSet): void {
    const old = cache.get(id);
    if (old !== undefined) {
      bytes -= old.byteLength;
      cache.delete(id);
    }
    cache.set(id, rows);
    bytes += rows.byteLength;
    for (const [oldest, held] of cache) {
      if (bytes <= bytesMax || oldest === id) break;
      cache.delete(oldest);
      bytes -= held.byteLength;
    }
  }

  return {
    async rowsOf(store, files) {
      const out = new Map<string, RowSet>();
      const missing: AddFile[] = [];
      for (const file of files) {
        if (file.deletionVector === null) continue;
        const id = vectorId(file.deletionVector);
        const held = cache.get(id);
        if (held === undefined) missing.push(file);
        else {
          put(id, held);
          out.set(file.path, held);
        }
      }
      for (let at = 0; at < missing.length; at += PARALLEL) {
        const turn = missing.slice(at, at + PARALLEL).map(async (file) => {
          if (file.deletionVector === null) return;
          const { deletionVector } = file;
          const rows = await withRetry(() => readDeletionVector(store, deletionVector), isRetriable);
          put(vectorId(deletionVector), rows);
          out.set(file.path, rows);
        });
        await Promise.all(turn);
      }
      return out;
    },
    put: (file, rows) => put(vectorId(file.deletionVector), rows),
  };
}
