/** Log replay (PROTOCOL.md, "Action Reconciliation"): the state of a version as what a checkpoint and commits add up to. */
import { vectorId } from './actions.ts';
import type {
  DomainMetadataAction,
  MetadataAction,
  PartitionValues,
  ProtocolAction,
  RemoveFile,
  TxnAction,
} from './actions.ts';
import type { ActionVisitor } from './action-json.ts';
import { canonicalPath } from './file-path.ts';
import { FileSet } from './file-set.ts';

export interface LogState {
  readonly protocol: ProtocolAction | null;
  readonly metadata: MetadataAction | null;
  readonly files: FileSet;
  readonly txns: ReadonlyMap<string, TxnAction>;
  /** Live domains only. */
  readonly domains: ReadonlyMap<string, DomainMetadataAction>;
  /** Removed files by identity; null when they were not asked for. */
  readonly tombstones: ReadonlyMap<string, RemoveFile> | null;
  /** Of the newest commit replayed, when it carried one. */
  readonly inCommitTimestampMs: number | null;
  /** `commitInfo.timestamp` of the newest commit replayed. */
  readonly commitTimestampMs: number | null;
}

export const EMPTY_STATE: LogState = {
  protocol: null,
  metadata: null,
  files: new FileSet(),
  txns: new Map(),
  domains: new Map(),
  tombstones: null,
  inCommitTimestampMs: null,
  commitTimestampMs: null,
};

/** Applies actions in log order, oldest first, on top of `start`, which does not change. */
export interface Replay {
  readonly visitor: ActionVisitor;
  /** To be called before each commit: its commitInfo replaces the last one's. */
  beginCommit(): void;
  done(): LogState;
}

export function startReplay(start: LogState, keepTombstones: boolean): Replay {
  const files = start.files.edit();
  const txns = new Map(start.txns);
  const domains = new Map(start.domains);
  const tombstones = keepTombstones ? new Map(start.tombstones ?? []) : null;
  const intern = partitionInterner();
  let { protocol, metadata, inCommitTimestampMs, commitTimestampMs } = start;
  return {
    beginCommit: () => {
      inCommitTimestampMs = null;
      commitTimestampMs = null;
    },
    visitor: {
      commitInfo: (info) => {
        inCommitTimestampMs = milliseconds(info['inCommitTimestamp']);
        commitTimestampMs = milliseconds(info['timestamp']);
      },
      protocol: (action) => (protocol = action),
      metadata: (action) => (metadata = action),
      txn: (action) => txns.set(action.appId, action),
      domain: (action) => {
        if (action.removed) domains.delete(action.domain);
        else domains.set(action.domain, action);
      },
      add: (action) => {
        files.add({ ...action, partitionValues: intern(action.partitionValues) });
        tombstones?.delete(fileIdentity(action.path, vectorId(action.deletionVector)));
      },
      remove: (action) => {
        files.remove(action);
        tombstones?.set(fileIdentity(action.path, vectorId(action.deletionVector)), action);
      },
    },
    done: () => ({
      protocol,
      metadata,
      files: files.done(),
      txns,
      domains,
      tombstones,
      inCommitTimestampMs,
      commitTimestampMs,
    }),
  };
}

/** Key of a logical file: its path in one spelling, and its vector. */
export function fileIdentity(path: string, vector: string): string {
  return `${canonicalPath(path)}\0${vector}`;
}

export function milliseconds(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : null;
}

const INTERNED_MAX = 65_536;

/** One object per distinct set of partition values: 300,000 files usually share a few thousand. */
function partitionInterner(): (values: PartitionValues) => PartitionValues {
  const known = new Map<string, PartitionValues>();
  const none: PartitionValues = Object.freeze({});
  return (values) => {
    let key = '';
    for (const name in values) key += `${name}\0${values[name] === null ? '\u0001' : `=${values[name]}`}\0`;
    if (key === '') return none;
    const found = known.get(key);
    if (found !== undefined) return found;
    if (known.size < INTERNED_MAX) known.set(key, values);
    return values;
  };
}
