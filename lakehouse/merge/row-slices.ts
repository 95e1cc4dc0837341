/**
 * A batch's work in slices, each of which takes so many bytes of stored rows at most: an event of a hundred bytes may bring
 * back a stored document of a hundred kilobytes, and a batch has tens of thousands of events. Pure.
 */
import { NO_BASE, type Resolution } from './resolve.ts';
import type { RowPlan } from './row-plan.ts';

export type RowSlice = Pick<RowPlan, 'write' | 'replaced'>;

/** The plan itself where it is within the limit. @param storedBytes of a row of the file with this ordinal, as stored */
export function slicePlan(
  plan: RowPlan,
  resolution: Resolution,
  storedBytes: (file: number) => number,
  bytesMax: number,
): readonly RowSlice[] {
  const widths = new Map<number, number>([[NO_BASE, 0]]);
  const widthOf = (row: number): number => {
    const file = fileOf(resolution, row);
    let width = widths.get(file);
    if (width === undefined) widths.set(file, (width = storedBytes(file)));
    return width;
  };
  const rows = rowsOf(plan, resolution);
  if (rows.reduce((sum, row) => sum + widthOf(row), 0) <= bytesMax) return [plan];
  // Neighbours in the table are read together: each slice opens few files.
  rows.sort((a, b) => fileOf(resolution, a) - fileOf(resolution, b) || placeOf(resolution, a) - placeOf(resolution, b));
  const sliceOf = new Uint32Array(resolution.outcomes.length);
  let slices = 1;
  let bytes = 0;
  for (const row of rows) {
    const width = widthOf(row);
    if (bytes > 0 && bytes + width > bytesMax) {
      slices++;
      bytes = 0;
    }
    bytes += width;
    sliceOf[row] = slices - 1;
  }
  const written = bySlice(plan.write.rows, sliceOf, slices);
  const replaced = bySlice(plan.replaced, sliceOf, slices);
  return written.map((places, slice) => ({
    write: {
      rows: Uint32Array.from(places, (at) => plan.write.rows[at] ?? 0),
      softDeleted: pickBits(plan.write.softDeleted, places),
    },
    replaced: Uint32Array.from(replaced[slice] ?? [], (at) => plan.replaced[at] ?? 0),
  }));
}

/** The batch row at whose place in the table a row's absent columns stand: the old key's after a key change. */
export function donorOf({ donors }: Resolution, row: number): number {
  const donor = donors?.[row] ?? -1;
  return donor < 0 ? row : donor;
}

const fileOf = (resolution: Resolution, row: number): number =>
  resolution.baseFile[donorOf(resolution, row)] ?? NO_BASE;
const placeOf = (resolution: Resolution, row: number): number => resolution.baseRow[donorOf(resolution, row)] ?? 0;

/** All that the plan writes or replaces, ascending. */
function rowsOf({ write, replaced }: RowPlan, { outcomes }: Resolution): number[] {
  const taken = new Uint8Array(outcomes.length);
  for (const row of write.rows) taken[row] = 1;
  for (const row of replaced) taken[row] = 1;
  const rows: number[] = [];
  for (let row = 0; row < taken.length; row++) if (taken[row] === 1) rows.push(row);
  return rows;
}

/** Places in `rows`, by their row's slice. */
function bySlice(rows: Uint32Array, sliceOf: Uint32Array, slices: number): readonly number[][] {
  const places = Array.from({ length: slices }, (): number[] => []);
  rows.forEach((row, at) => places[sliceOf[row] ?? 0]?.push(at));
  return places;
}

/** The bits at `places`, in their order; null when none is set. */
function pickBits(bits: Uint8Array | null, places: readonly number[]): Uint8Array | null {
  if (bits === null) return null;
  const picked = new Uint8Array((places.length + 7) >> 3);
  places.forEach((from, to) => {
    if (((bits[from >> 3] ?? 0) & (1 << (from & 7))) !== 0) picked[to >> 3] = (picked[to >> 3] ?? 0) | (1 << (to & 7));
  });
  return picked.some((byte) => byte !== 0) ? picked : null;
}
