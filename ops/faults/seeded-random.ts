/** A small seeded generator (mulberry32): a failing run is repeated by its seed. */
export interface SeededRandom {
  /** Uniform in [0, 1). */
  readonly next: () => number;
  /** Uniform integer in [0, below). */
  readonly integer: (below: number) => number;
  readonly pick: <T>(items: readonly [T, ...T[]]) => T;
}

export function seededRandom(seed: number): SeededRandom {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const integer = (below: number): number => Math.floor(next() * below);
  return { next, integer, pick: (items) => items[integer(items.length)] ?? items[0] };
}
