/** The source's order. DESIGN invariant 1: position is (epoch, commit LSN, ordinal); nothing else orders events. */
export type Lsn = bigint & { readonly __brand: 'Lsn' };
export type LogOffset = bigint & { readonly __brand: 'LogOffset' };

export interface Position {
  /** Rises when the source's WAL no longer continues the one we followed. From 1. */
  readonly epoch: number;
  /** BEGIN's final LSN (the commit record), unsigned 64-bit; for snapshot rows the high mark's LSN. */
  readonly lsn: Lsn;
  /** Ordinal of the row change in its transaction: 2n (delete half, or the whole change), 2n+1 (insert half of a key change). */
  readonly ord: number;
}

export function lsn(value: bigint): Lsn {
  if (value < 0n || value > 0xffff_ffff_ffff_ffffn) throw new RangeError(`LSN out of range: ${value}`);
  return value as Lsn;
}

/** `16/B374D848` → bigint (PostgreSQL docs, pg_lsn Type). */
export function parseLsn(text: string): Lsn {
  const match = /^([0-9A-Fa-f]{1,8})\/([0-9A-Fa-f]{1,8})$/.exec(text);
  if (match === null)
    throw new RangeError(`not an LSN: '${text}' (expected two hexadecimal numbers such as 16/B374D848)`);
  return ((BigInt(`0x${match[1]}`) << 32n) | BigInt(`0x${match[2]}`)) as Lsn;
}

export function formatLsn(value: bigint): string {
  return `${(value >> 32n).toString(16).toUpperCase()}/${(value & 0xffff_ffffn).toString(16).toUpperCase()}`;
}

export function comparePosition(a: Position, b: Position): number {
  if (a.epoch !== b.epoch) return a.epoch < b.epoch ? -1 : 1;
  if (a.lsn !== b.lsn) return a.lsn < b.lsn ? -1 : 1;
  return a.ord - b.ord;
}
