/**
 * `_sluice/consistent.json`: one version of every table such that all of them together are the source's state at one LSN
 * (less the rows in quarantine). The versions are gathered at barriers (barrier-keeper.ts), or at the cuts of several workers.
 */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { Mark } from '../log/event.ts';
import { formatLsn } from '../log/position.ts';

export const CONSISTENT_FORMAT = 1;
export const CONSISTENT_KEY = '_sluice/consistent.json';

export interface ConsistentCut {
  readonly mark: Mark;
  readonly progressOffset: bigint;
  /** Version by `schema.table`. */
  readonly versions: ReadonlyMap<string, bigint>;
  /** Tables that are stopped or paused: not part of the cut. */
  readonly left: readonly string[];
}

/**
 * A cut whose versions did not change is written again this often: its LSN moves on, and where no service answers for all
 * tables, `verify` waits for that. An idle source brings a mark only now and then, so this costs next to nothing.
 */
const CUT_REFRESH_MS = 1_000;

export interface CutWriter {
  /** Writes one after the other; a cut that says nothing new is left out. A failure is told, and the next cut tries again. */
  publish(cut: ConsistentCut): void;
  /** The newest that was given to be written. */
  newest(): ConsistentCut | null;
  /** Resolves when all that was given is written. */
  settled(): Promise<void>;
}

export function createCutWriter(options: {
  readonly store: ObjectStore;
  readonly pipeline: string;
  /** Folder in the lake of a table `schema.table`. */
  readonly folderOf: (id: string) => string;
  readonly onFailure: (error: unknown) => void;
}): CutWriter {
  const { store, pipeline, folderOf, onFailure } = options;
  let newest: ConsistentCut | null = null;
  let writing: Promise<void> = Promise.resolve();
  return {
    publish(given) {
      const cut = withoutStanding(given);
      if (sameVersions(newest, cut)) return;
      newest = cut;
      writing = writing.then(() => writeConsistent(store, pipeline, cut, folderOf).catch(onFailure));
    },
    newest: () => newest,
    settled: () => writing,
  };
}

/** Of a table that the reader has stopped or let go the lake is not the source's state, though its query is at the mark. */
function withoutStanding(cut: ConsistentCut): ConsistentCut {
  const { standing = [] } = cut.mark;
  if (standing.length === 0) return cut;
  const versions = new Map([...cut.versions].filter(([id]) => !standing.includes(id)));
  const known = standing.filter((id) => cut.versions.has(id) && !cut.left.includes(id));
  return { ...cut, versions, left: [...cut.left, ...known] };
}

function sameVersions(a: ConsistentCut | null, b: ConsistentCut): boolean {
  if (a === null || a.versions.size !== b.versions.size || a.left.length !== b.left.length) return false;
  for (const [id, version] of b.versions) if (a.versions.get(id) !== version) return false;
  return b.mark.atMs - a.mark.atMs < CUT_REFRESH_MS;
}

async function writeConsistent(
  store: ObjectStore,
  pipeline: string,
  cut: ConsistentCut,
  folderOf: (id: string) => string,
): Promise<void> {
  const { mark } = cut;
  const tables = Object.fromEntries(
    [...cut.versions]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([id, version]) => [id, { path: folderOf(id), version: Number(version) }]),
  );
  const body = {
    formatVersion: CONSISTENT_FORMAT,
    pipeline,
    logId: mark.logId,
    epoch: mark.epoch,
    lsn: formatLsn(mark.lsn),
    ord: mark.ord,
    markSequence: mark.sequence,
    progressOffset: String(cut.progressOffset),
    sourceTimeMicros: String(mark.sourceTimeMicros),
    tables,
    left: cut.left,
  };
  await store.put(CONSISTENT_KEY, Buffer.from(`${JSON.stringify(body, null, 2)}\n`));
}
