/**
 * Log compaction files (PROTOCOL.md, "Log Compaction Files") hold the reconciled actions of several commits. Some writers
 * only string the commits together, newest first, and readers have always taken the first action they met for each thing;
 * so do we. In a file that is reconciled nothing repeats, and this changes nothing.
 */
import { vectorId } from './actions.ts';
import type { ActionVisitor } from './action-json.ts';
import { fileIdentity } from './replay.ts';

/** Passes on the first action about each file, application, domain, and the first protocol and metadata. */
export function firstWins(visitor: ActionVisitor): ActionVisitor {
  const seen = new Set<string>();
  const first = (key: string): boolean => {
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  };
  return {
    protocol: (action) => {
      if (first('protocol')) visitor.protocol?.(action);
    },
    metadata: (action) => {
      if (first('metadata')) visitor.metadata?.(action);
    },
    txn: (action) => {
      if (first(`txn ${action.appId}`)) visitor.txn?.(action);
    },
    domain: (action) => {
      if (first(`domain ${action.domain}`)) visitor.domain?.(action);
    },
    add: (action) => {
      if (first(`file ${fileIdentity(action.path, vectorId(action.deletionVector))}`)) visitor.add?.(action);
    },
    remove: (action) => {
      if (first(`file ${fileIdentity(action.path, vectorId(action.deletionVector))}`)) visitor.remove?.(action);
    },
  };
}
