/** From outcomes to work: which rows are written, which stored rows go, which deletes are fenced. Pure. */
import { RowOutcome, type MergeMode } from './merge.ts';
import { NO_BASE, type Resolution } from './resolve.ts';
import type { WritePlan } from './written-rows.ts';

export interface RowPlan {
  readonly write: WritePlan;
  /** Batch rows whose stored row goes. */
  readonly replaced: Uint32Array;
  /** Batch rows whose delete is to be remembered in a fence file. */
  readonly fenced: Uint32Array;
}

export function planRows(mode: Exclude<MergeMode, 'append'>, resolution: Resolution): RowPlan {
  const { outcomes, baseFile } = resolution;
  const written = new Uint32Array(outcomes.length);
  const replaced = new Uint32Array(outcomes.length);
  const fenced = new Uint32Array(outcomes.length);
  const deletedAt: number[] = [];
  let count = 0;
  let replacedCount = 0;
  let fencedCount = 0;
  for (let row = 0; row < outcomes.length; row++) {
    const outcome = outcomes[row];
    const hasBase = baseFile[row] !== NO_BASE;
    if (outcome === RowOutcome.insert || outcome === RowOutcome.update) {
      written[count++] = row;
      if (hasBase) replaced[replacedCount++] = row;
    } else if (outcome === RowOutcome.delete || outcome === RowOutcome.noop) {
      const stays = mode === 'soft-delete' && hasBase;
      if (stays) {
        deletedAt.push(count);
        written[count++] = row;
      } else fenced[fencedCount++] = row;
      if (hasBase) replaced[replacedCount++] = row;
    }
  }
  const rows = written.subarray(0, count);
  const softDeleted = deletedAt.length === 0 ? null : new Uint8Array((rows.length + 7) >> 3);
  if (softDeleted !== null)
    for (const at of deletedAt) softDeleted[at >> 3] = (softDeleted[at >> 3] ?? 0) | (1 << (at & 7));
  return {
    write: { rows, softDeleted },
    replaced: replaced.subarray(0, replacedCount),
    fenced: fenced.subarray(0, fencedCount),
  };
}

export type RowCounts = Readonly<Record<keyof typeof RowOutcome, number>> & { readonly truncated: number };

export function countOutcomes(outcomes: Uint8Array, truncated: number): RowCounts {
  const by = new Uint32Array(6);
  for (const outcome of outcomes) by[outcome] = (by[outcome] ?? 0) + 1;
  return {
    insert: by[RowOutcome.insert] ?? 0,
    update: by[RowOutcome.update] ?? 0,
    delete: by[RowOutcome.delete] ?? 0,
    stale: by[RowOutcome.stale] ?? 0,
    noop: by[RowOutcome.noop] ?? 0,
    missingBase: by[RowOutcome.missingBase] ?? 0,
    truncated,
  };
}
