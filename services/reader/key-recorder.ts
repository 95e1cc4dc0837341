/**
 * What the stream did to the keys of a table while chunks of it are being read (DESIGN section 4, "one snapshot mechanism").
 *
 * At a chunk's high mark every transaction that the chunk's snapshot sees has been appended. A row of the chunk may go to the
 * log as it is, unless its key was touched by an appended transaction that the snapshot does not see: then the row is older
 * than what the log has. Such a row still gives the columns that none of those events carried (unchanged TOAST): a fill row.
 *
 * Pure. Transactions are forgotten when every snapshot that a chunk has or will have sees them.
 */
import { isVisible, type VisibleSet } from './visibility.ts';

/** Text of the key columns in key order, copied out of the message. */
export type KeyCells = readonly Buffer[];

interface RecordedEvent {
  readonly xid: number;
  /** Order of recording. */
  readonly place: number;
  readonly kind: 'write' | 'delete' | 'move';
  /** write, move: indexes of the columns that the event did not carry; mostly empty. */
  readonly unchanged: readonly number[];
  /** move: the new key. */
  readonly to: string | null;
  readonly toCells: KeyCells | null;
}

export interface FillRow {
  /** Columns to take from the chunk's row. */
  readonly columns: readonly number[];
  /** Null = the row's own key; otherwise the key that the row has now. */
  readonly keyCells: KeyCells | null;
}

/** What becomes of a chunk's row: as it is, nothing, or a fill row. */
export type RowFate = 'emit' | 'skip' | FillRow;

export interface KeyRecorder {
  /** Transactions that were appended before recording began and were not known to be visible: their keys are not here. */
  readonly unseenAtOpen: ReadonlySet<number>;
  /** Rises when records were dropped for lack of room: chunks begun before must be read again. */
  readonly generation: number;
  write(xid: number, key: string, unchanged: readonly number[]): void;
  remove(xid: number, key: string): void;
  move(xid: number, from: string, to: string, unchanged: readonly number[], toCells: KeyCells): void;
  /** TRUNCATE: every row read by a snapshot that does not see it is gone. */
  truncate(xid: number): void;
  fate(key: string, snapshot: VisibleSet): RowFate;
  prune(snapshots: readonly VisibleSet[]): void;
  readonly isEmpty: boolean;
}

export function createKeyRecorder(unseen: () => Iterable<number>, eventsMax: number): KeyRecorder {
  let unseenAtOpen: ReadonlySet<number> = new Set(unseen());
  let byKey = new Map<string, RecordedEvent[]>();
  /** Transactions in the order of their commits, with the keys that they touched. */
  let order: { xid: number; keys: string[] }[] = [];
  let truncates: number[] = [];
  let generation = 1;
  let place = 0;
  let count = 0;

  const add = (key: string, event: Omit<RecordedEvent, 'place'>, samePlace = false): void => {
    if (count >= eventsMax) {
      byKey = new Map();
      order = [];
      truncates = [];
      count = 0;
      generation++;
      unseenAtOpen = new Set(unseen());
    }
    if (!samePlace) place++;
    count++;
    const list = byKey.get(key);
    if (list === undefined) byKey.set(key, [{ ...event, place }]);
    else list.push({ ...event, place });
    const last = order.at(-1);
    if (last !== undefined && last.xid === event.xid) last.keys.push(key);
    else order.push({ xid: event.xid, keys: [key] });
  };

  /** Follows one row through its events, from one key to the next. `needed` null = all columns. */
  const follow = (key: string, from: number, snapshot: VisibleSet): RowFate => {
    let needed: readonly number[] | null = null;
    let at: string | null = key;
    let cells: KeyCells | null = null;
    let after = from;
    let touched = false;
    let alive = true;
    while (at !== null) {
      const events: readonly RecordedEvent[] = byKey.get(at) ?? [];
      at = null;
      for (const event of events) {
        if (event.place <= after || isVisible(event.xid, snapshot)) continue;
        touched = true;
        after = event.place;
        if (event.kind === 'delete') {
          alive = false;
          needed = [];
          continue;
        }
        needed = needed === null ? event.unchanged : needed.filter((column) => event.unchanged.includes(column));
        alive = true;
        if (event.kind === 'move') {
          at = event.to;
          cells = event.toCells;
          break;
        }
      }
    }
    if (!touched) return 'emit';
    if (!alive || needed === null || needed.length === 0) return 'skip';
    return { columns: needed, keyCells: cells };
  };

  return {
    get unseenAtOpen() {
      return unseenAtOpen;
    },
    get generation() {
      return generation;
    },
    get isEmpty() {
      return count === 0 && truncates.length === 0;
    },
    write: (xid, key, unchanged) => add(key, { xid, kind: 'write', unchanged, to: null, toCells: null }),
    remove: (xid, key) => add(key, { xid, kind: 'delete', unchanged: [], to: null, toCells: null }),
    move(xid, from, to, unchanged, toCells) {
      add(from, { xid, kind: 'move', unchanged, to, toCells });
      // A row that some snapshot still shows under the new key is older, too. At the same place, so that whoever follows the
      // row from its old key does not take the arrival for another write.
      add(to, { xid, kind: 'write', unchanged: [], to: null, toCells: null }, true);
    },
    truncate(xid) {
      truncates.push(xid);
    },
    fate(key, snapshot) {
      for (const xid of truncates) if (!isVisible(xid, snapshot)) return 'skip';
      return byKey.has(key) ? follow(key, 0, snapshot) : 'emit';
    },
    prune(snapshots) {
      const seen = (xid: number): boolean => snapshots.every((snapshot) => isVisible(xid, snapshot));
      truncates = truncates.filter((xid) => !seen(xid));
      let gone = 0;
      for (; gone < order.length; gone++) {
        const transaction = order[gone];
        if (transaction === undefined || !seen(transaction.xid)) break;
        for (const key of transaction.keys) {
          const list = byKey.get(key);
          if (list === undefined) continue;
          const rest = list.filter((event) => event.xid !== transaction.xid);
          count -= list.length - rest.length;
          if (rest.length === 0) byKey.delete(key);
          else byKey.set(key, rest);
        }
      }
      if (gone > 0) order = order.slice(gone);
    },
  };
}
