/** Seeded random numbers (mulberry32), so that a demo or a failing run can be repeated. */
export interface Random {
  /** 0 <= x < 1 */
  next(): number;
  /** 0 <= n < limit */
  below(limit: number): number;
  pick<T>(items: readonly T[]): T;
  hex(bytes: number): string;
  uuid(): string;
}

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  const hex = (bytes: number): string => {
    let text = '';
    for (let i = 0; i < bytes; i += 1) text += below(256).toString(16).padStart(2, '0');
    return text;
  };
  return {
    next,
    below,
    hex,
    pick<T>(items: readonly T[]): T {
      const item = items[below(items.length)];
      if (item === undefined) throw new RangeError('pick from an empty list');
      return item;
    },
    uuid() {
      const h = hex(16);
      return `${h.slice(0, 8)}-${h.slice(8, 12)}-4${h.slice(13, 16)}-a${h.slice(17, 20)}-${h.slice(20)}`;
    },
  };
}
