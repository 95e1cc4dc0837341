/**
 * Bloom filter over key hashes: about ten bits a key, six probes, 1 % false answers. It spares a run's page read for keys
 * that the run does not hold. The hash words are uniform already, so probes are a + i·b of two of them (Kirsch, Mitzenmacher).
 */
const BITS_A_KEY = 10;
const PROBES = 6;

export function bloomBytes(keyCount: number): number {
  return Math.max(64, Math.ceil((keyCount * BITS_A_KEY) / 64) * 8);
}

/** A filter that denies no key. */
export const openBloom = (): Uint8Array => new Uint8Array(64).fill(0xff);

export function bloomAdd(filter: Uint8Array, a: number, b: number): void {
  const bits = filter.length * 8;
  let at = a;
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = at % bits;
    filter[bit >>> 3] = (filter[bit >>> 3] ?? 0) | (1 << (bit & 7));
    at = (at + b) >>> 0;
  }
}

export function bloomHas(filter: Uint8Array, a: number, b: number): boolean {
  const bits = filter.length * 8;
  let at = a;
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = at % bits;
    if (((filter[bit >>> 3] ?? 0) & (1 << (bit & 7))) === 0) return false;
    at = (at + b) >>> 0;
  }
  return true;
}
