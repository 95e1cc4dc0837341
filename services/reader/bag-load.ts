/**
 * A bag while it is being loaded. The rows come from one snapshot; of the events meanwhile, those that it sees are in its
 * rows, and the others count. Inserts go to the log at once; deletes wait until every row of the snapshot is there, for the
 * row that one of them takes away may not have come yet (or it is left out right there, which comes to the same).
 */
import { isVisible, type VisibleSet } from './visibility.ts';

export interface BagLoad {
  /** The transaction's effects are in the rows that are being read. */
  sees(xid: number): boolean;
  /** Keeps a delete for the end of the load. */
  defer(key: Buffer): void;
  /** A row of the snapshot that a kept delete takes away: both are done with. */
  absorb(key: Buffer): boolean;
  /** Takes up to `max` kept deletes, as their records' keys. */
  take(max: number): readonly Buffer[];
  /** TRUNCATE: what the snapshot shows is gone. */
  truncated(): void;
  readonly waiting: number;
  /** Why the load has to begin anew, or cannot go on. */
  readonly broken: 'truncated' | 'too-many-deletes' | null;
}

export function createBagLoad(snapshot: VisibleSet, keysMax: number): BagLoad {
  const deletes = new Map<string, number>();
  let waiting = 0;
  let broken: BagLoad['broken'] = null;
  return {
    get waiting() {
      return waiting;
    },
    get broken() {
      return broken;
    },
    sees: (xid) => isVisible(xid, snapshot),
    defer(key) {
      const text = key.toString('latin1');
      const known = deletes.get(text);
      if (known === undefined && deletes.size >= keysMax) {
        broken ??= 'too-many-deletes';
        return;
      }
      deletes.set(text, (known ?? 0) + 1);
      waiting++;
    },
    absorb(key) {
      if (waiting === 0) return false;
      const text = key.toString('latin1');
      const known = deletes.get(text);
      if (known === undefined) return false;
      if (known === 1) deletes.delete(text);
      else deletes.set(text, known - 1);
      waiting--;
      return true;
    },
    take(max) {
      const taken: Buffer[] = [];
      for (const [text, count] of deletes) {
        if (taken.length >= max) break;
        const now = Math.min(count, max - taken.length);
        const key = Buffer.from(text, 'latin1');
        for (let i = 0; i < now; i++) taken.push(key);
        if (now === count) deletes.delete(text);
        else deletes.set(text, count - now);
      }
      waiting -= taken.length;
      return taken;
    },
    truncated() {
      broken ??= 'truncated';
    },
  };
}
