/**
 * Whether a column's values repeat enough for a dictionary. The writer builds one value by value and gives it up when it
 * grows too large; for a column of keys or free text that is the dearest part of the encoding, and nothing comes of it.
 */
import type { ColumnVector } from '../table/column.ts';

/** Values looked at: runs, for values that repeat often stand side by side. */
const RUNS = 32;
const RUN_ROWS = 64;
/** Below this a dictionary costs nothing to speak of. */
const ROWS_MIN = 4 * RUNS * RUN_ROWS;
/** Of the sample, at least this much twice or more. */
const REPEATED_MIN = 0.04;
/** Of a text, so much tells it from others. */
const TEXT_BYTES = 64;

/** True also where it does not matter, or cannot be told cheaply. */
export function mayRepeat(column: ColumnVector): boolean {
  if (column.length < ROWS_MIN) return true;
  const mix = mixer(column);
  if (mix === null) return true;
  const seen = new Set<number>();
  const step = Math.floor((column.length - RUN_ROWS) / (RUNS - 1));
  let asked = 0;
  for (let run = 0; run < RUNS; run++) {
    for (let row = run * step, end = row + RUN_ROWS; row < end; row++) {
      if (column.validity !== null && ((column.validity[row >> 3] ?? 0) & (1 << (row & 7))) === 0) continue;
      seen.add(mix(row));
      asked++;
    }
  }
  return asked - seen.size >= asked * REPEATED_MIN;
}

/** A number a value, 32 bits of it: two values that share one by chance make a dictionary more likely, no more. */
function mixer(column: ColumnVector): ((row: number) => number) | null {
  switch (column.kind) {
    case 'int32':
      return (row) => column.values[row] ?? 0;
    case 'float32':
      return wordMixer(column.values, 1);
    case 'int64':
    case 'float64':
      return wordMixer(column.values, 2);
    case 'decimal':
      return wordMixer(column.values, 4);
    case 'utf8':
    case 'binary': {
      const { data, offsets } = column;
      return (row) => {
        const start = offsets[row] ?? 0;
        const end = offsets[row + 1] ?? 0;
        let mixed = end - start;
        // The ends of long texts differ as often as their beginnings.
        const skip = Math.max(0, end - start - TEXT_BYTES);
        for (let i = start + skip; i < end; i++) mixed = Math.imul(mixed ^ (data[i] ?? 0), 0x0100_0193);
        return mixed;
      };
    }
    case 'boolean':
    case 'list':
    case 'map':
    case 'struct':
      return null;
  }
}

function wordMixer(values: ArrayBufferView, words: number): (row: number) => number {
  const all = new Uint32Array(values.buffer, values.byteOffset, values.byteLength >> 2);
  return (row) => {
    let mixed = 0;
    for (let at = row * words, end = at + words; at < end; at++)
      mixed = Math.imul(mixed ^ (all[at] ?? 0), 0x85eb_ca6b) ^ (mixed >>> 15);
    return mixed;
  };
}
