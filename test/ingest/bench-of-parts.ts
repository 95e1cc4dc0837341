/** A log, a lake and a pipeline in temporary folders, put together as main.ts would. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readRowGroups } from '../../lakehouse/merge/read-rows.ts';
import { createVectorCache } from '../../lakehouse/merge/vector-cache.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { containsRow } from '../../lakehouse/table/row-bitmap.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { contractFolder } from '../../services/ingest/contract-files.ts';
import { startIngest } from '../../services/ingest/pipeline.ts';
import type { IngestHandle, IngestOptions } from '../../services/ingest/pipeline.ts';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import type { EventLog } from '../../services/log/log.ts';
import { valueAt } from '../../services/stream/row-view.ts';
import type { RowValue } from '../../services/stream/sink.ts';
import { systemClock } from '../../services/stream/triggers.ts';
import { createFakeReader } from './fake-reader.ts';
import type { FakeReader } from './fake-reader.ts';

export interface Parts {
  readonly folder: string;
  readonly log: EventLog;
  readonly lake: ObjectStore;
  readonly reader: FakeReader;
  start(options?: Partial<IngestOptions>): Promise<IngestHandle>;
  /** Living rows of a table, by the text of their key columns (default: the first). */
  rows(path: string, key?: readonly string[]): Promise<Map<string, Record<string, RowValue>>>;
  close(): Promise<void>;
}

/** `given`: another log than an embedded one; closed with the parts. */
export async function createParts(given: EventLog | null = null, name = 'shop'): Promise<Parts> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-ingest-'));
  const log = given ?? (await openEmbeddedLog({ directory: join(folder, 'log') }));
  const lake = createFileStore(join(folder, 'lake'));
  const reader = await createFakeReader(log, name);
  const running: IngestHandle[] = [];
  return {
    folder,
    log,
    lake,
    reader,
    async start(options = {}) {
      const handle = await startIngest({
        name,
        log,
        lake,
        stateFolder: join(folder, 'state'),
        contracts: contractFolder(join(folder, 'contracts')),
        trigger: { kind: 'interval', intervalMs: 0 },
        maxOffsetsPerTrigger: 100_000,
        memoryBytes: 128 * 1024 * 1024,
        clock: systemClock,
        newId: randomUUID,
        onFailure: ({ id, error }) => {
          if (process.env['SLUICE_TEST_VERBOSE'] !== undefined) console.error(id, error);
        },
        ...options,
      });
      running.push(handle);
      return handle;
    },
    rows: (path, key) => tableRows(lake, path, key),
    async close() {
      for (const handle of running) await handle.stop(1000);
      await reader.close();
      await log.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function tableRows(
  lake: ObjectStore,
  path: string,
  key?: readonly string[],
): Promise<Map<string, Record<string, RowValue>>> {
  const snapshot = await openSnapshot(subStore(lake, path));
  const out = new Map<string, Record<string, RowValue>>();
  const keyColumns = key ?? [snapshot.schema.fields[0]?.name ?? ''];
  const files = [...snapshot.files];
  const dead = await createVectorCache().rowsOf(snapshot.store, files);
  for (const file of files)
    for await (const { rowStart, batch } of readRowGroups(snapshot, file, snapshot.schema.fields))
      for (let row = 0; row < batch.rowCount; row++) {
        const gone = dead.get(file.path);
        if (gone !== undefined && gone.length > 0 && containsRow(gone, rowStart + row)) continue;
        const values: Record<string, RowValue> = {};
        snapshot.schema.fields.forEach(({ name, type }, index) => {
          const column = batch.columns[index];
          if (column !== undefined) values[name] = valueAt(column, type, row);
        });
        const key = keyColumns.map((name) => String(values[name])).join('/');
        if (out.has(key)) throw new Error(`${path} holds key ${key} twice`);
        out.set(key, values);
      }
  return out;
}
