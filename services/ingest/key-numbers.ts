/** Dense numbers for a batch's keys, in the order of their first appearance. */
import type { KeyCell } from './key-cell.ts';

const INITIAL_SLOTS = 2048;
const TWO_32 = 4294967296;

/** Whole numbers, which most keys are, have a table of their own: a Map keeps an object for each that is no small integer. */
export class KeyNumbers {
  /** By number. */
  keys: KeyCell[] = [];
  private readonly others = new Map<KeyCell, number>();
  /** Number of the key that stands in a slot, plus one; 0 = free. */
  private slots = new Int32Array(INITIAL_SLOTS);
  private values = new Float64Array(INITIAL_SLOTS);
  private whole = 0;

  /** The key's number, given to it now when it has none. */
  take(key: KeyCell): number {
    if (typeof key === 'number' && Number.isInteger(key)) return this.takeWhole(key);
    const known = this.others.get(key);
    if (known !== undefined) return known;
    const made = this.keys.length;
    this.others.set(key, made);
    this.keys.push(key);
    return made;
  }

  takeAll(keys: readonly KeyCell[], from: number, to: number, into: Int32Array): void {
    for (let i = from; i < to; i++) into[i] = this.take(keys[i] as KeyCell);
  }

  /** Forgets every key, and keeps the memory. The list of keys is a new one: whoever has the old one keeps it. */
  reset(): void {
    this.keys = [];
    this.others.clear();
    this.slots.fill(0);
    this.whole = 0;
  }

  /** Room for so many whole numbers. */
  expect(count: number): void {
    let size = this.slots.length;
    while (size < count * 2) size *= 2;
    if (size > this.slots.length) this.widen(size);
  }

  get(key: KeyCell): number | undefined {
    if (typeof key !== 'number' || !Number.isInteger(key)) return this.others.get(key);
    const held = this.slots[this.slotOf(key)] ?? 0;
    return held === 0 ? undefined : held - 1;
  }

  private takeWhole(key: number): number {
    const slot = this.slotOf(key);
    const held = this.slots[slot] as number;
    if (held !== 0) return held - 1;
    const made = this.keys.length;
    this.keys.push(key);
    this.slots[slot] = made + 1;
    this.values[slot] = key;
    if (++this.whole * 2 > this.slots.length) this.widen();
    return made;
  }

  /** The slot of a key, or the free one where it belongs. */
  private slotOf(key: number): number {
    const { slots, values } = this;
    const mask = slots.length - 1;
    const high = Math.floor(key / TWO_32);
    let mixed = Math.imul((key | 0) ^ Math.imul(high | 0, 0x85eb_ca6b), 0x9e37_79b1);
    mixed ^= mixed >>> 15;
    for (let slot = mixed & mask; ; slot = (slot + 1) & mask)
      if (slots[slot] === 0 || values[slot] === key) return slot;
  }

  private widen(size = this.slots.length * 2): void {
    const { slots, values } = this;
    this.slots = new Int32Array(size);
    this.values = new Float64Array(size);
    for (let i = 0; i < slots.length; i++) {
      if (slots[i] === 0) continue;
      const slot = this.slotOf(values[i] as number);
      this.slots[slot] = slots[i] as number;
      this.values[slot] = values[i] as number;
    }
  }
}
