/**
 * Decoded deletion vectors of the files that batches touch: of each file the one last asked for or written. All tables of a
 * process share one bound of bytes, for there may be hundreds of them; the least recently used go first.
 */
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

interface HeldVector {
  readonly id: string;
  readonly rows: RowSet;
}

/** What several caches hold together. */
export interface VectorMemory {
  readonly bytes: number;
  get(key: string): HeldVector | undefined;
  put(key: string, vector: HeldVector): void;
}

export function createVectorMemory(bytesMax: number): VectorMemory {
  const held = new Map<string, HeldVector>();
  let bytes = 0;
  const drop = (key: string): void => {
    bytes -= held.get(key)?.rows.byteLength ?? 0;
    held.delete(key);
  };
  return {
    get bytes() {
      return bytes;
    },
    get: (key) => held.get(key),
    put(key, vector) {
      drop(key);
      held.set(key, vector);
      bytes += vector.rows.byteLength;
      for (const oldest of held.keys()) {
        if (bytes <= bytesMax || oldest === key) break;
        drop(oldest);
      }
    },
  };
}

const ofTheProcess = createVectorMemory(BYTES_MAX);
let caches = 0;

export function createVectorCache(memory: VectorMemory = ofTheProcess): VectorCache {
  const name = caches++;
  const keyOf = ({ path }: AddFile): string => `${name} ${path}`;
  return {
    async rowsOf(store, files) {
      const out = new Map<string, RowSet>();
      const missing: AddFile[] = [];
      for (const file of files) {
        if (file.deletionVector === null) continue;
        const key = keyOf(file);
        const held = memory.get(key);
        if (held?.id === vectorId(file.deletionVector)) {
          memory.put(key, held);
          out.set(file.path, held.rows);
        } else missing.push(file);
      }
      for (let at = 0; at < missing.length; at += PARALLEL) {
        const turn = missing.slice(at, at + PARALLEL).map(async (file) => {
          if (file.deletionVector === null) return;
          const { deletionVector } = file;
          const rows = await withRetry(() => readDeletionVector(store, deletionVector), isRetriable);
          memory.put(keyOf(file), { id: vectorId(deletionVector), rows });
          out.set(file.path, rows);
        });
        await Promise.all(turn);
      }
      return out;
    },
    put: (file, rows) => memory.put(keyOf(file), { id: vectorId(file.deletionVector), rows }),
  };
}
