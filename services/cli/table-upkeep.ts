/** Log cleanup and VACUUM of every table beside the running stream; a failure is told and tried again at the next turn. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { createUpkeep } from '../../lakehouse/upkeep/upkeep.ts';
import type { IngestHandle } from '../ingest/pipeline.ts';
import type { Logger } from '../runtime/logger.ts';

const TURN_MS = 15 * 60_000;

export async function keepTables(
  lake: ObjectStore,
  ingest: IngestHandle,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  const jobs = new Map<string, ReturnType<typeof createUpkeep>>();
  while (!signal.aborted) {
    await sleep(TURN_MS, undefined, { signal, ref: false }).catch(() => undefined);
    for (const { table, folder, version } of ingest.status().tables) {
      if (signal.aborted || version === null) continue;
      const job = jobs.get(table) ?? createUpkeep({ store: subStore(lake, folder) });
      jobs.set(table, job);
      const done = await job.tick();
      for (const failure of done.failures)
        logger.warn({ table, job: failure.job, err: failure.error }, 'upkeep will be tried again');
      if (done.filesDeleted + done.logFilesRemoved > 0) logger.info({ table, ...done }, 'upkeep');
    }
  }
}
