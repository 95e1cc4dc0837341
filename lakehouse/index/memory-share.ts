/**
 * What all key indexes of a process keep in memory together. Each has its own bound; a pipeline has hundreds of tables, and
 * that many times the bound of one is no bound.
 */

/** Entries (40 to 64 bytes each) of all indexes before the one that holds most writes its own to disk. */
const ENTRIES_MAX = 786_432;

/** One index's part. */
export interface MemoryPart {
  /** Entries in memory; 0 while they are on their way to disk. */
  held(): number;
  /** Writes them to disk; resolves when they are, whether that went well or not. */
  flush(): Promise<void>;
}

export interface MemoryShare {
  /** Returns how to leave. */
  join(part: MemoryPart): () => void;
  /** To be called when a part has grown. Waits for the disk where it is too slow for what comes. */
  relieve(): Promise<void>;
}

export function createMemoryShare(entriesMax: number): MemoryShare {
  const parts = new Set<MemoryPart>();
  let writing = 0;
  let written: Promise<void> = Promise.resolve();
  return {
    join(part) {
      parts.add(part);
      return () => void parts.delete(part);
    },
    async relieve() {
      let held = 0;
      let most = 0;
      let largest: MemoryPart | null = null;
      for (const part of parts) {
        const count = part.held();
        held += count;
        if (count <= most) continue;
        most = count;
        largest = part;
      }
      if (held > entriesMax && largest !== null) {
        writing += most;
        written = Promise.all([written, largest.flush()]).then(() => {
          writing -= most;
        });
      }
      if (writing > entriesMax) await written;
    },
  };
}

/** That of the process. */
export const memoryOfTheProcess = createMemoryShare(ENTRIES_MAX);
