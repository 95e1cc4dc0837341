/** What a replay works with, from the configuration and the open log and lake. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { contractFolder } from '../../ingest/contract-files.ts';
import type { EventLog } from '../../log/log.ts';
import type { ReplayParts } from '../../replay/replay/parts.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';
import type { FailpointHook } from '../../runtime/failpoints.ts';
import { openCheckpoint } from './lake.ts';
import { piiKey } from './log-privacy.ts';

export async function replayParts(
  config: Config,
  open: { readonly lake: ObjectStore; readonly log: EventLog },
  failpoint: FailpointHook,
): Promise<ReplayParts> {
  return {
    name: config.name,
    log: open.log,
    logId: await open.log.admin.logId(),
    lake: open.lake,
    checkpoint: openCheckpoint(config) ?? { store: open.lake, folder: '_sluice/checkpoints' },
    // Apart from the stream's own: key indexes are of one process each.
    stateFolder: join(config.state, 'replay'),
    contracts: contractFolder(config.contracts),
    piiKey: piiKey(config),
    memoryBytes: config.stream.memory,
    maxOffsetsPerTrigger: config.stream.maxOffsetsPerTrigger,
    changeDataFeed: config.lake.cdf,
    deletionVectors: config.lake.deletionVectors,
    retentionMs: config.log.retention,
    now: Date.now,
    newId: randomUUID,
    failpoint,
  };
}

/** @throws ConfigError for a pipeline whose topics another writer fills: they have no marks to end a range at */
export function requireOwnTopics(config: Config): void {
  if (config.log.debezium.topics.length > 0)
    throw new ConfigError(
      'replay needs the marks of sluice’s own reader, and these topics are written by Debezium',
      'rows are read again from the source by Debezium’s own snapshot signal',
    );
}
