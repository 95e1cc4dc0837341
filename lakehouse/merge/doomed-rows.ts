/** Rows of stored files that a commit takes away, gathered file by file. */
import type { RowSet } from '../table/row-bitmap.ts';

export interface DoomedRows {
  add(path: string, row: number): void;
  addAll(path: string, rows: RowSet): void;
  /** Ascending rows without repeats, a file. */
  byFile(): ReadonlyMap<string, RowSet>;
}

export function createDoomedRows(): DoomedRows {
  const lists = new Map<string, number[]>();
  const sets = new Map<string, RowSet[]>();
  return {
    add(path, row) {
      const list = lists.get(path);
      if (list === undefined) lists.set(path, [row]);
      else list.push(row);
    },
    addAll(path, rows) {
      if (rows.length > 0) sets.set(path, [...(sets.get(path) ?? []), rows]);
    },
    byFile() {
      const out = new Map<string, RowSet>();
      for (const path of new Set([...lists.keys(), ...sets.keys()])) {
        const parts = [Uint32Array.from(lists.get(path) ?? []), ...(sets.get(path) ?? [])];
        out.set(path, ascending(parts));
      }
      return out;
    },
  };
}

function ascending(parts: readonly RowSet[]): RowSet {
  const all = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  all.sort();
  let kept = 0;
  for (let i = 0; i < all.length; i++) if (i === 0 || all[i] !== all[i - 1]) all[kept++] = all[i] ?? 0;
  return all.slice(0, kept);
}
