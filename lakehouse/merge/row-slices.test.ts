import { describe, expect, it } from 'vitest';
import { NO_BASE, type Resolution } from './resolve.ts';
import type { RowPlan } from './row-plan.ts';
import { slicePlan, type RowSlice } from './row-slices.ts';

function resolution(
  files: readonly number[],
  places: readonly number[],
  donors: readonly number[] | null = null,
): Resolution {
  return {
    outcomes: new Uint8Array(files.length),
    baseFile: Uint32Array.from(files),
    baseRow: Uint32Array.from(places),
    donors: donors === null ? null : Int32Array.from(donors),
    extra: [],
  };
}

function planOf(rows: readonly number[], replaced: readonly number[], softDeleted: Uint8Array | null = null): RowPlan {
  return {
    write: { rows: Uint32Array.from(rows), softDeleted },
    replaced: Uint32Array.from(replaced),
    fenced: new Uint32Array(0),
  };
}

const shown = (slices: readonly RowSlice[]): number[][][] =>
  slices.map(({ write, replaced }) => [[...write.rows], [...replaced]]);

describe('a plan', () => {
  it('stays whole while the stored rows fit', () => {
    const plan = planOf([0, 1], [0, 1]);
    expect(slicePlan(plan, resolution([1, 2], [0, 0]), () => 50, 100)[0]).toBe(plan);
  });

  it('is cut by where the stored rows stand, every row in one slice', () => {
    const stored = resolution([2, 1, NO_BASE, 2, 1], [5, 9, 0, 4, 8]);
    const slices = slicePlan(planOf([0, 2, 3, 4], [0, 1, 3, 4]), stored, () => 10, 20);
    // A row without stored one costs nothing, and goes with the last.
    expect(shown(slices)).toEqual([
      [[4], [1, 4]],
      [
        [0, 2, 3],
        [0, 3],
      ],
    ]);
  });

  it('has a slice for a row that is larger than the limit', () => {
    const slices = slicePlan(planOf([0, 1, 2], [0, 1, 2]), resolution([1, 1, 1], [0, 1, 2]), () => 100, 20);
    expect(slices).toHaveLength(3);
  });

  it('counts the old key’s row after a key change, and keeps the marks of soft deletes with their rows', () => {
    const stored = resolution([NO_BASE, 1, 1], [0, 3, 4], [1, -1, -1]);
    const slices = slicePlan(planOf([0, 1, 2], [1, 2], Uint8Array.of(0b100)), stored, () => 10, 20);
    expect(shown(slices)).toEqual([
      [[0, 1], [1]],
      [[2], [2]],
    ]);
    expect(slices.map(({ write }) => write.softDeleted)).toEqual([null, Uint8Array.of(1)]);
  });
});
