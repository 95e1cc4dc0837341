/**
 * Named places at which a test may stop a writer: the hook throws (a crash in a test's process) or kills the process.
 * In production it is `NO_FAILPOINT`.
 */
export const MERGE_FAILPOINTS = [
  'after-data-files',
  'before-table-commit',
  'after-table-commit',
  'during-checkpoint',
] as const;
export type MergeFailpoint = (typeof MERGE_FAILPOINTS)[number];
export type FailpointHook = (name: MergeFailpoint) => Promise<void> | void;

export const NO_FAILPOINT: FailpointHook = () => {};
