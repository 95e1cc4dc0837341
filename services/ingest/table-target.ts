/** The lake's side of one source table: its Delta table, its quarantine, what they remember. Opened on demand. */
import { openMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import type { FailpointHook } from '../../lakehouse/merge/failpoint.ts';
import type { MergeTable } from '../../lakehouse/merge/merge.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { lakeTableName } from '../../contracts/engine/lake-name.ts';
import { join } from 'node:path';

export interface TargetOptions {
  readonly schemaName: string;
  readonly tableName: string;
  /** The lake's root. */
  readonly lake: ObjectStore;
  /** Local folder for key indexes: a cache. */
  readonly stateFolder: string;
  readonly changeDataFeed: boolean;
  readonly deletionVectors: boolean;
  /** Never shorter than log retention. */
  readonly fenceRetentionMs: number;
  readonly failpoint: FailpointHook;
}

export interface TableTarget {
  readonly folder: string;
  readonly quarantineFolder: string;
  main(): Promise<MergeTable>;
  quarantine(): Promise<MergeTable>;
  /** Newest version of the main table, null when there is none. */
  snapshot(): Promise<Snapshot | null>;
  schema(): Promise<StructType | null>;
  quarantineSnapshot(): Promise<Snapshot | null>;
  close(): Promise<void>;
}

/** Delta's commit files are kept as long as the log keeps events (issue 3, item 13). */
const PROPERTIES = { 'delta.logRetentionDuration': 'interval 7 days' };

export function tableFolder(schemaName: string, tableName: string): string {
  return `${lakeTableName(schemaName)}/${lakeTableName(tableName)}`;
}

export function createTableTarget(options: TargetOptions): TableTarget {
  const folder = tableFolder(options.schemaName, options.tableName);
  const quarantineFolder = `${folder}__quarantine`;
  let main: Promise<MergeTable> | null = null;
  let quarantine: Promise<MergeTable> | null = null;

  return {
    folder,
    quarantineFolder,
    main() {
      main ??= openMergeTable({
        store: subStore(options.lake, folder),
        indexDir: join(options.stateFolder, 'index', folder),
        create: {
          name: `${options.schemaName}.${options.tableName}`,
          changeDataFeed: options.changeDataFeed,
          deletionVectors: options.deletionVectors,
          properties: PROPERTIES,
        },
        fenceRetentionMs: options.fenceRetentionMs,
        failpoint: options.failpoint,
      });
      return orForget(main, () => (main = null));
    },
    quarantine() {
      quarantine ??= openMergeTable({
        store: subStore(options.lake, quarantineFolder),
        indexDir: join(options.stateFolder, 'index', quarantineFolder),
        create: { name: `${options.schemaName}.${options.tableName}__quarantine`, properties: PROPERTIES },
        fenceRetentionMs: options.fenceRetentionMs,
      });
      return orForget(quarantine, () => (quarantine = null));
    },
    snapshot: () => snapshotOf(options.lake, folder),
    schema: async () => (await snapshotOf(options.lake, folder))?.schema ?? null,
    quarantineSnapshot: () => snapshotOf(options.lake, quarantineFolder),
    async close() {
      const open = [main, quarantine];
      main = null;
      quarantine = null;
      for (const table of open) await (await table?.catch(() => null))?.close();
    },
  };
}

/** A table that could not be opened is tried again by the next call. */
async function orForget(table: Promise<MergeTable>, forget: () => void): Promise<MergeTable> {
  try {
    return await table;
  } catch (error) {
    forget();
    throw error;
  }
}

async function snapshotOf(lake: ObjectStore, folder: string): Promise<Snapshot | null> {
  const store = subStore(lake, folder);
  for await (const _ of store.list('_delta_log/')) return openSnapshot(store);
  return null;
}
