/**
 * Places kept in the order of an index's layers (tables in memory, then run files; newest first). A place is known by the
 * first layer that is older than it; layers on both sides of it are never merged with each other.
 */
export interface HeldPlace {
  /** False once entries came in another order, or the index was reset. */
  valid(): boolean;
  /** Gives it up; the layers on both sides may be merged again. */
  release(): void;
}

export interface Places<L extends object> {
  /** `older`: the newest layer below the place, null when there is none. */
  hold(older: L | null): HeldPlace;
  olderThan(place: HeldPlace): L | null;
  /** `gone`, neighbours, were replaced; what stands in their stead (or next below them) is `by`. */
  replace(gone: readonly L[], by: L | null): void;
  /** Neighbouring layers, cut where a place lies between two of them. */
  cut<M extends L>(layers: readonly M[]): readonly (readonly M[])[];
  forget(): void;
}

export function createPlaces<L extends object>(): Places<L> {
  const held = new Map<HeldPlace, L | null>();
  return {
    hold(older) {
      const place: HeldPlace = { valid: () => held.has(place), release: () => void held.delete(place) };
      held.set(place, older);
      return place;
    },
    olderThan: (place) => held.get(place) ?? null,
    replace(gone, by) {
      for (const [place, older] of held) if (older !== null && gone.includes(older)) held.set(place, by);
    },
    cut(layers) {
      const borders = new Set<L | null>(held.values());
      const groups: (typeof layers)[number][][] = [];
      for (const layer of layers) {
        const open = groups.at(-1);
        if (open === undefined || borders.has(layer)) groups.push([layer]);
        else open.push(layer);
      }
      return groups;
    },
    forget: () => held.clear(),
  };
}
