import type { FindingLevel } from './finding.ts';
import type { TreePath } from './yaml-tree.ts';

/** How a check of lint reports: a path, and the rest of the finding. The level is error unless it says otherwise. */
export type Report = (
  path: TreePath,
  code: string,
  message: string,
  more?: { readonly level?: FindingLevel; readonly hint?: string | null },
) => void;
