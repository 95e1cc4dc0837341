/**
 * Keys with a parked event: their row in the table is stale. A later event that lacks a column which a parked one carried
 * has no base for it (the table's value is older), so it parks too; a later complete event, or a delete, heals the key.
 */
import { isBefore } from '../stream/sink.ts';
import type { RowPlace } from '../stream/sink.ts';
import type { KeyCell } from './key-cell.ts';

export interface ParkedEntry {
  /** Id of the quarantine row. */
  readonly id: string;
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
  /** Columns that the parked event did not carry itself. */
  readonly absentColumns: readonly string[];
}

export interface ParkedKeys {
  readonly size: number;
  has(key: KeyCell): boolean;
  add(key: KeyCell, entry: ParkedEntry): void;
  /** True when an event at the position that lacks `absentColumns` would need a parked event's value. */
  blocks(key: KeyCell, position: RowPlace, absentColumns: readonly string[]): boolean;
  /** Takes away the entries older than the position and returns them. */
  heal(key: KeyCell, position: RowPlace): readonly ParkedEntry[];
  /** A TRUNCATE: takes away all entries older than it, of every key, and returns them. */
  healAll(position: RowPlace): readonly ParkedEntry[];
  remove(id: string): void;
  /** A copy to work on: a batch that fails must leave no trace. */
  clone(): ParkedKeys;
}

export function createParkedKeys(initial: Iterable<readonly [KeyCell, readonly ParkedEntry[]]> = []): ParkedKeys {
  const byKey = new Map<KeyCell, readonly ParkedEntry[]>(initial);
  return {
    get size() {
      return byKey.size;
    },
    has: (key) => byKey.has(key),
    add(key, entry) {
      const entries = byKey.get(key) ?? [];
      if (!entries.some(({ id }) => id === entry.id)) byKey.set(key, [...entries, entry]);
    },
    blocks(key, position, absentColumns) {
      const entries = byKey.get(key);
      if (entries === undefined) return false;
      return entries.some(
        (entry) => isBefore(entry, position) && absentColumns.some((column) => !entry.absentColumns.includes(column)),
      );
    },
    heal(key, position) {
      const entries = byKey.get(key);
      if (entries === undefined) return [];
      const healed = entries.filter((entry) => isBefore(entry, position));
      if (healed.length === entries.length) byKey.delete(key);
      else if (healed.length > 0)
        byKey.set(
          key,
          entries.filter((entry) => !healed.includes(entry)),
        );
      return healed;
    },
    healAll(position) {
      const healed: ParkedEntry[] = [];
      for (const key of byKey.keys()) healed.push(...this.heal(key, position));
      return healed;
    },
    remove(id) {
      for (const [key, entries] of byKey) {
        const left = entries.filter((entry) => entry.id !== id);
        if (left.length === entries.length) continue;
        if (left.length === 0) byKey.delete(key);
        else byKey.set(key, left);
        return;
      }
    },
    clone: () => createParkedKeys(byKey),
  };
}

/** For queries that park nothing: no key is ever stale. */
export const noParkedKeys: ParkedKeys = {
  size: 0,
  has: () => false,
  add: () => undefined,
  blocks: () => false,
  heal: () => [],
  healAll: () => [],
  remove: () => undefined,
  clone: () => noParkedKeys,
};
