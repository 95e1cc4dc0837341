/**
 * Barriers, at which the cuts of `consistent.json` are made: a closed mark is chosen, every table ends a batch exactly there,
 * and when all have, their versions make the cut. A table with nothing to apply keeps its version.
 */
import type { Mark } from '../log/event.ts';
import type { ConsistentCut } from './consistent.ts';

export interface BarrierTable {
  readonly id: string;
  /** Sequence of the mark that the table has reached. */
  readonly reached: number;
  /** Sequence that the batch in hand will reach; at least `reached`. */
  readonly ahead: number;
  readonly version: bigint | null;
  readonly active: boolean;
}

export interface BarrierKeeper {
  /** The mark that no plan may pass; null = none is open. */
  barrier(): number | null;
  /** The same, for a table that stands at `sequence` and plans a batch now: the barrier then stays where it is. */
  barrierAfter(sequence: number): number | null;
  /** Gives the open barrier up: its mark is gone, or the tables have changed hands. */
  drop(): void;
  /**
   * One table's step is over. True when a look at all tables is due: the last one that was waited for has come, or a barrier
   * may be opened. A look at each step of each table would cost the square of their number.
   */
  came(table: BarrierTable, newestClosed: { readonly mark: Mark } | null): boolean;
  /** Looks at all tables; gives a cut when the last has come to the barrier, and opens the next one. */
  look(
    tables: readonly BarrierTable[],
    newestClosed: { readonly mark: Mark; readonly progressOffset: bigint } | null,
  ): ConsistentCut | null;
}

export function createBarrierKeeper(): BarrierKeeper {
  let open: Barrier = null;
  /** A table plans up to the open barrier: were it moved on now, and again at the next mark, no table would ever end at it. */
  let taken = false;
  let done = 0;
  let versions = new Map<string, bigint>();
  let seen = new Set<string>();
  /** Active tables that had not come to the barrier at the last look, less those that came since. */
  let waiting = 0;

  function note({ id, reached, version, active }: BarrierTable, at: number): 'here' | 'waiting' | 'passed' {
    if (active && reached < at) return 'waiting';
    if (!active || seen.has(id)) return 'here';
    seen.add(id);
    if (version !== null) versions.set(id, version);
    // A table that another worker brought further: what it had at the barrier, nobody here saw.
    return reached > at ? 'passed' : 'here';
  }

  return {
    barrier: () => open?.mark.sequence ?? null,
    barrierAfter(sequence) {
      if (open === null || sequence >= open.mark.sequence) return null;
      taken = true;
      return open.mark.sequence;
    },
    drop() {
      open = null;
    },
    came(table, newestClosed) {
      if (open === null) return (newestClosed?.mark.sequence ?? 0) > done;
      const at = open.mark.sequence;
      if (!table.active) return true;
      if (!seen.has(table.id)) {
        // Gone past it: the look is to find it so.
        if (table.reached > at) return true;
        if (note(table, at) === 'here') waiting--;
      }
      return waiting <= 0;
    },
    look(tables, newestClosed) {
      let cut: ConsistentCut | null = null;
      if (!taken) open = movedOn(open, newestClosed, tables);
      if (open !== null) {
        const at = open.mark.sequence;
        const found = tables.map((table) => note(table, at));
        waiting = found.filter((one) => one === 'waiting').length;
        if (found.includes('passed')) open = null;
        else if (waiting === 0) {
          const left = tables.filter(({ active }) => !active).map(({ id }) => id);
          if (open.mark.snapshotting.length === 0) cut = { ...open, versions, left };
          done = at;
          open = null;
        }
      }
      // A batch in hand may end at a newer mark inside a transaction: then the next closed mark has to do.
      const ahead = Math.max(done, ...tables.filter(({ active }) => active).map((table) => table.ahead));
      const next = newestClosed?.mark.sequence ?? 0;
      if (open === null && newestClosed !== null && next > done && next >= ahead) {
        open = newestClosed;
        taken = false;
        versions = new Map();
        seen = new Set();
        waiting = tables.filter((table) => note(table, next) === 'waiting').length;
      }
      return cut;
    },
  };
}

type Barrier = { readonly mark: Mark; readonly progressOffset: bigint } | null;

/**
 * A barrier that no table has come to, or plans to come to, moves on to the newest closed mark: a table that rests until its
 * next trigger then takes all that has come meanwhile, and not only what there was when the barrier opened.
 */
function movedOn(open: Barrier, newest: Barrier, tables: readonly BarrierTable[]): Barrier {
  if (open === null || newest === null || newest.mark.sequence <= open.mark.sequence) return open;
  const at = open.mark.sequence;
  const active = tables.filter((table) => table.active);
  return active.length > 0 && active.every(({ ahead, reached }) => ahead < at && reached < at) ? newest : open;
}
