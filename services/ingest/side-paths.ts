/**
 * What happens to a table beside its stream: parked rows listed, shown, released and dropped, and stretches of the log applied
 * once more. Each goes through the gate and the fences of the stream itself.
 */
import type { TableShape } from '../log/event.ts';
import { refuseBag } from './bag-refusal.ts';
import type { RecordDecoder } from './decode-batch.ts';
import type { IngestTableOptions } from './ingest-table-options.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { classifiedIn, dropQuarantined, listQuarantine, showQuarantine } from './quarantine-list.ts';
import { retryQuarantine } from './quarantine-retry.ts';
import { replayBatch } from './replay-batch.ts';
import type { IngestTable } from './table-handle.ts';
import type { TablePlan } from './table-plan.ts';

export interface SidePathsOptions {
  readonly options: IngestTableOptions;
  readonly topic: string;
  /** The contract in use now, looked up anew. */
  readonly usePlan: () => Promise<TablePlan>;
  readonly decoder: (plan: TablePlan) => RecordDecoder;
  readonly evolve: (next: TableShape, standing: TablePlan) => TablePlan;
  readonly parkedKeys: () => ParkedKeys;
  /** A commit was made; null: there was nothing to commit. */
  readonly moved: (version: bigint | null) => void;
  readonly reloadParked: () => Promise<void>;
}

export function createSidePaths(
  paths: SidePathsOptions,
): Pick<IngestTable, 'retry' | 'replay' | 'drop' | 'list' | 'show'> {
  const { options, usePlan, decoder, parkedKeys, moved, reloadParked } = paths;
  const { schemaName, tableName, target, shapes } = options;
  const tables = { main: () => target.main(), quarantine: () => target.quarantine() };
  return {
    async retry(ids) {
      const using = await usePlan();
      refuseBag(using, `${schemaName}.${tableName}`, 'retry');
      const done = await retryQuarantine({
        ...tables,
        schemaName,
        tableName,
        topic: paths.topic,
        snapshot: await target.quarantineSnapshot(),
        tablePlan: using,
        decode: decoder(using),
        evolve: (next, standing) => {
          const newer = shapes.byVersion(next);
          return newer === null ? standing : paths.evolve(newer, standing);
        },
        parkedKeys: parkedKeys(),
        ids,
        nowMs: options.now(),
        failpoint: options.failpoint,
      });
      moved(done.version);
      await reloadParked();
      return done;
    },
    async replay(request) {
      // A table that stands still since its start has not looked yet.
      await reloadParked();
      const using = await usePlan();
      refuseBag(using, `${schemaName}.${tableName}`, 'replay');
      const done = await replayBatch({
        ...options,
        ...tables,
        quarantined: await target.quarantineSnapshot(),
        tablePlan: using,
        decode: decoder(using),
        evolve: paths.evolve,
        parkedKeys: parkedKeys(),
        nowMs: options.now(),
        request,
      });
      moved(done.version);
      await reloadParked();
      return done;
    },
    async drop(ids) {
      const parked = await target.quarantineSnapshot();
      const dropped = await dropQuarantined(parked, await target.quarantine(), ids, options.now());
      await reloadParked();
      return dropped;
    },
    list: async (wanted) => listQuarantine(await target.quarantineSnapshot(), wanted, await classifiedIn(usePlan)),
    async show(id) {
      const using = await usePlan();
      return showQuarantine(await target.quarantineSnapshot(), id, { decode: decoder(using), tablePlan: using });
    },
  };
}
