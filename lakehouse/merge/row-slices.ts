/**
 * A batch's work in slices, each of which takes so many bytes of stored rows at most: an event of a hundred bytes may bring
 * back a stored document of a hundred kilobytes, and a batch has tens of thousands of events. Pure.
 */
import { NO_BASE, type Resolution } from './resolve.ts';
import type { RowPlan } from './row-plan.ts';

/** The plan itself where it is within the limit. @param storedBytes of a row of the file with this ordinal, as stored */
export function slicePlan(
  plan: RowPlan,
  resolution: Resolution,
  storedBytes: (file: number) => number,
  bytesMax: number,
): readonly RowPlan[] {
  const rows = rowsOf(plan);
  const files = Uint32Array.from(rows, (row) => resolution.baseFile[donorOf(resolution, row)] ?? NO_BASE);
  const widths = new Map<number, number>([[NO_BASE, 0]]);
  let total = 0;
  for (const file of files) {
    let width = widths.get(file);
    if (width === undefined) widths.set(file, (width = storedBytes(file)));
    total += width;
  }
  if (total <= bytesMax) return [plan];
  // Neighbours in the table are read together: each slice opens few files.
  const order = [...rows.keys()].toSorted(
    (a, b) =>
      (files[a] ?? 0) - (files[b] ?? 0) || placeOf(resolution, rows[a] ?? 0) - placeOf(resolution, rows[b] ?? 0),
  );
  const sliceOf = new Map<number, number>();
  let slices = 0;
  let bytes = 0;
  for (const at of order) {
    const width = widths.get(files[at] ?? NO_BASE) ?? 0;
    if (bytes > 0 && bytes + width > bytesMax) {
      slices++;
      bytes = 0;
    }
    bytes += width;
    sliceOf.set(rows[at] ?? 0, slices);
  }
  return Array.from({ length: slices + 1 }, (_, slice) => partOf(plan, (row) => sliceOf.get(row) === slice));
}

/** The batch row at whose place in the table a row's absent columns stand: the old key's after a key change. */
export function donorOf({ donors }: Resolution, row: number): number {
  const donor = donors?.[row] ?? -1;
  return donor < 0 ? row : donor;
}

const placeOf = (resolution: Resolution, row: number): number => resolution.baseRow[donorOf(resolution, row)] ?? 0;

/** All that the plan writes or replaces, ascending. */
const rowsOf = ({ write, replaced }: RowPlan): Uint32Array =>
  Uint32Array.from(new Set([...write.rows, ...replaced])).toSorted();

function partOf({ write, replaced, fenced }: RowPlan, isIn: (row: number) => boolean): RowPlan {
  const places = [...write.rows.keys()].filter((at) => isIn(write.rows[at] ?? 0));
  const { softDeleted } = write;
  let part: Uint8Array | null = null;
  if (softDeleted !== null) {
    const bits = new Uint8Array((places.length + 7) >> 3);
    places.forEach((from, to) => {
      if (((softDeleted[from >> 3] ?? 0) & (1 << (from & 7))) !== 0)
        bits[to >> 3] = (bits[to >> 3] ?? 0) | (1 << (to & 7));
    });
    if (bits.some((byte) => byte !== 0)) part = bits;
  }
  return {
    write: { rows: Uint32Array.from(places, (at) => write.rows[at] ?? 0), softDeleted: part },
    replaced: replaced.filter(isIn),
    fenced: fenced.filter(isIn),
  };
}
