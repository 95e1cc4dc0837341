/**
 * Arithmetic on ranges of tuple identifiers (block * 65536 + offset), half-open, the last one open-ended, because rows are
 * still appended while a heap is read. Pure.
 */
import type { TidRange } from './reader-state.ts';

export const TID_BLOCK = 65_536;

/** `(block,offset)` as PostgreSQL prints it. */
export function tidText(tid: number): string {
  return `(${Math.floor(tid / TID_BLOCK)},${tid % TID_BLOCK})`;
}

export function parseTid(text: string): number {
  const comma = text.indexOf(',');
  const block = Number(text.slice(1, comma));
  const offset = Number(text.slice(comma + 1, -1));
  if (comma < 2 || !Number.isSafeInteger(block) || !Number.isSafeInteger(offset))
    throw new RangeError(`not a tid: '${text}'`);
  return block * TID_BLOCK + offset;
}

/** The SQL condition of a range. */
export function rangeCondition(range: TidRange): string {
  const from = `ctid >= '${tidText(range.from)}'`;
  return range.to === null ? from : `${from} and ctid < '${tidText(range.to)}'`;
}

/** Adds a range to an ordered list of disjoint ranges and joins neighbours. */
export function mergeRange(done: readonly TidRange[], added: TidRange): readonly TidRange[] {
  const sorted = [...done, added].sort((a, b) => a.from - b.from);
  const out: TidRange[] = [];
  for (const range of sorted) {
    const last = out.at(-1);
    if (last === undefined || (last.to !== null && range.from > last.to)) out.push(range);
    else if (last.to !== null && (range.to === null || range.to > last.to))
      out[out.length - 1] = { from: last.from, to: range.to };
  }
  return out;
}

/** What is still to be read, in pieces of `blocksPerChunk` blocks; the last piece is open-ended. */
export function remainingChunks(
  done: readonly TidRange[],
  blocks: number,
  blocksPerChunk: number,
): readonly TidRange[] {
  const gaps: TidRange[] = [];
  let at: number | null = 0;
  for (const range of done) {
    if (at !== null && range.from > at) gaps.push({ from: at, to: range.from });
    at = range.to;
    if (at === null) break;
  }
  if (at !== null) gaps.push({ from: at, to: null });
  return gaps.flatMap((gap) => cut(gap, blocks, blocksPerChunk));
}

function cut(gap: TidRange, blocks: number, blocksPerChunk: number): readonly TidRange[] {
  const step = Math.max(1, blocksPerChunk) * TID_BLOCK;
  const last = gap.to ?? blocks * TID_BLOCK;
  const out: TidRange[] = [];
  let { from } = gap;
  // Cuts lie on multiples of the step, so that a resumed snapshot cuts the same way.
  for (let next = (Math.floor(from / step) + 1) * step; next < last; next += step) {
    out.push({ from, to: next });
    from = next;
  }
  out.push({ from, to: gap.to });
  return out;
}
