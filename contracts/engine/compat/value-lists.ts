/** What one list of values has and another has not. Values are compared by their text: a list may be written in either way. */
import type { ScalarValue } from '../yaml-tree.ts';

export interface ListDifference {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** Without a list there is no value in it. */
export function compareValueLists(
  old: readonly ScalarValue[] | null,
  now: readonly ScalarValue[] | null,
): ListDifference {
  const [before, after] = [new Set(old?.map(String)), new Set(now?.map(String))];
  return {
    added: [...after].filter((value) => !before.has(value)),
    removed: [...before].filter((value) => !after.has(value)),
  };
}
