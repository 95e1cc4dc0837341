/** What a merge says of itself in the table's history, under the names that Delta's MERGE uses. */
import type { Operation } from '../table/commit.ts';
import type { MergeCommit, MergeMode } from './merge.ts';
import type { RowCounts } from './row-plan.ts';

export interface MergeFacts {
  readonly counts: RowCounts;
  readonly sourceRows: number;
  readonly filesAdded: number;
  readonly filesRemoved: number;
  readonly vectorsWritten: number;
  readonly changeFiles: number;
  readonly fences: readonly string[];
  readonly fenceMember: string;
}

export function mergeOperation(mode: MergeMode, commit: MergeCommit, facts: MergeFacts): Operation {
  const { counts } = facts;
  const metrics: Record<string, number> =
    mode === 'append'
      ? { numFiles: facts.filesAdded, numOutputRows: facts.sourceRows }
      : {
          numSourceRows: facts.sourceRows,
          numTargetRowsInserted: counts.insert,
          numTargetRowsUpdated: counts.update,
          numTargetRowsDeleted: counts.delete + counts.truncated,
          numOutputRows: counts.insert + counts.update,
          numTargetFilesAdded: facts.filesAdded,
          numTargetFilesRemoved: facts.filesRemoved,
          numTargetDeletionVectorsAdded: facts.vectorsWritten,
          numTargetChangeFilesAdded: facts.changeFiles,
          sluiceRowsStale: counts.stale,
          sluiceRowsNoop: counts.noop,
          sluiceRowsMissingBase: counts.missingBase,
        };
  return {
    name: mode === 'append' ? 'WRITE' : 'MERGE',
    parameters: mode === 'append' ? { mode: 'Append', ...commit.info } : { ...commit.info },
    metrics: Object.fromEntries(Object.entries(metrics).map(([name, value]) => [name, String(value)])),
    isBlindAppend: mode === 'append',
    ...(facts.fences.length === 0 ? {} : { extra: { [facts.fenceMember]: facts.fences } }),
  };
}
