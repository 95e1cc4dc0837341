/** Which version of a table holds the source's state at an LSN: what the stream wrote down with each commit. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { listLog } from '../../lakehouse/table/log-segment.ts';
import { openSnapshot, type Snapshot } from '../../lakehouse/table/snapshot.ts';

import { readPosition } from '../ingest/txn-ids.ts';
import { formatLsn } from '../log/position.ts';
import { ConfigError } from '../runtime/errors.ts';

/**
 * The newest version whose position is not beyond the LSN.
 * @throws ConfigError when the pipeline never wrote to the table, or no version is that old
 */
export async function versionAtLsn(store: ObjectStore, lsn: bigint, pipeline: string): Promise<bigint> {
  const newest = await openSnapshot(store);
  const standing = await lsnOf(newest, pipeline);
  if (standing === null)
    throw new ConfigError(
      `the table has no LSN: pipeline ${pipeline} has not written to it`,
      'name a version or a time; `sluice table history` lists them',
    );
  if (standing <= lsn) return newest.version;
  const listing = await listLog(store, null);
  const versions = [...listing.commits.keys()]
    .filter((version) => version < newest.version)
    .sort((a, b) => (a < b ? -1 : 1));
  let [low, high] = [0, versions.length];
  let found: bigint | null = null;
  while (low < high) {
    const middle = (low + high) >> 1;
    const version = versions[middle] ?? 0n;
    const position = await lsnOf(await openSnapshot(store, { version }), pipeline);
    if (position === null || position <= lsn) {
      if (position !== null) found = version;
      low = middle + 1;
    } else high = middle;
  }
  if (found === null)
    throw new ConfigError(
      `no version of the table is as old as ${formatLsn(lsn)}`,
      '`sluice table history` lists the versions that are left',
    );
  return found;
}

async function lsnOf(snapshot: Snapshot, pipeline: string): Promise<bigint | null> {
  const position = await readPosition(
    (appId) => Promise.resolve(snapshot.txns.get(appId)?.version ?? null),
    pipeline,
    [],
  );
  return position?.lsn ?? null;
}
