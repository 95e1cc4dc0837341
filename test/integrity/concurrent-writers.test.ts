/**
 * Everything at once on one table: merge writers on keys of their own, OPTIMIZE, VACUUM, and delta-rs appending. Nothing is
 * lost, nothing is there twice, and the table checks clean. A few seconds by default; SLUICE_TEST_SECONDS=600 for the long run.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import { scan } from '../../lakehouse/read/scan.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { TableError } from '../../lakehouse/table/table-error.ts';
import { compactTable } from '../../lakehouse/upkeep/compact.ts';
import { fsck } from '../../lakehouse/upkeep/fsck.ts';
import { vacuum } from '../../lakehouse/upkeep/vacuum.ts';
import type { StructField } from '../../lakehouse/table/schema.ts';
import { seededRandom, type SeededRandom } from '../../ops/faults/seeded-random.ts';
import { pythonWith } from '../../ops/local/python.ts';
import { cacheFolder } from '../support/cache.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import {
  applyToModel,
  newModel,
  rowText,
  toMergeBatch,
  type Model,
  type ModelBatch,
  type ModelEvent,
} from './merge-model.ts';

const SECONDS = Number(process.env['SLUICE_TEST_SECONDS'] ?? 4);
const RETENTION_MS = 20_000;
const KEYS = 400;
const root = temporaryFolder('concurrent');
const FIELDS: readonly StructField[] = [
  { name: 'n', type: 'integer', nullable: true, metadata: {} },
  { name: 'body', type: 'string', nullable: true, metadata: {} },
];

function randomBatch(random: SeededRandom, tenant: string, lsn: bigint, model: Model): ModelBatch {
  const ids = new Set(Array.from({ length: 1 + random.integer(60) }, () => random.integer(KEYS)));
  const events = [...ids].map((id, i): ModelEvent => {
    const known = model.rows.has(`${tenant}\0${id}`);
    const cells = { n: random.integer(1000), body: known && random.integer(3) === 0 ? undefined : `body ${lsn}` };
    return { tenant, id: BigInt(id), delete: random.integer(4) === 0, position: { epoch: 1, lsn, ord: i }, cells };
  });
  return { events, truncate: null, fields: FIELDS };
}

async function writer(uri: string, tenant: string, seed: number, until: () => boolean): Promise<Model> {
  const random = seededRandom(seed);
  const model = newModel();
  let lost = 0;
  const open = (): ReturnType<typeof openMergeTable> =>
    openMergeTable({
      store: createFileStore(uri),
      indexDir: join(root, `index-${tenant}-${lost}`),
      checkpointEvery: 10,
      indexMemoryEntries: 200,
      autoCompact: { smallFilesMax: 12, smallBytes: 1_000_000, livingShareMin: 0.7, tableDeletedShareMax: 0.25 },
    });
  let table = await open();
  for (let batchId = 0n; !until(); batchId++) {
    const batch = randomBatch(random, tenant, 100n + batchId * 10n, model);
    const prepared = await table.prepare(toMergeBatch(batch));
    const request = { txns: [{ appId: tenant, version: batchId }], info: {}, timestampMs: 0 };
    const done = await table.commit(prepared, request);
    expect([...done.outcomes]).toEqual(applyToModel(model, batch, 'merge'));
    // A trigger's pause, though a short one.
    await sleep(random.integer(30));
    if (random.integer(25) !== 0) continue;
    await table.close();
    if (random.integer(2) === 0) lost++;
    table = await open();
  }
  await table.close();
  return model;
}

/** What concurrent maintenance may meet: it is told so by name and tries again. */
const EXPECTED = new Set(['COMMIT_CONFLICT', 'COMMIT_CONTENTION', 'TABLE_NOT_FOUND', 'DATA_FILE_MISSING']);

async function maintain(uri: string, until: () => boolean, onOptimized = (): void => undefined): Promise<void> {
  const store = createFileStore(uri);
  while (!until()) {
    try {
      const done = await compactTable(await openSnapshot(store), { plan: { targetBytes: 60_000 } });
      if (done.version !== null) onOptimized();
      await vacuum(store, { retentionMs: RETENTION_MS, force: true });
    } catch (error) {
      if (!(error instanceof TableError) || !EXPECTED.has(error.code)) throw error;
    }
    await sleep(50);
  }
}

function expectedRows(models: readonly Model[], names: readonly string[]): string[] {
  return models.flatMap((model) => [...model.rows.values()].map((row) => rowText(row, names)));
}

test(
  'merge writers, OPTIMIZE and VACUUM at once lose and double nothing',
  { timeout: (SECONDS + 600) * 1000 },
  async () => {
    const uri = join(root, 'ours');
    const end = Date.now() + SECONDS * 1000;
    let optimized = 0;
    // A slow machine gets the time that one OPTIMIZE needs which no writer overtakes.
    const until = (): boolean => Date.now() > end && optimized > 0;
    const first = writer(uri, 'a', 1, until);
    const others = ['b', 'c'].map((tenant, i) => writer(uri, tenant, i + 2, until));
    const maintained = maintain(uri, until, () => void optimized++);
    const [, ...models] = await Promise.all([maintained, first, ...others]);
    const store = createFileStore(uri);
    const snapshot = await openSnapshot(store);
    const names = snapshot.schema.fields.map((field) => field.name);
    expect(await canonicalRows(snapshot.schema, scan(snapshot))).toEqual(expectedRows(models, names).sort());
    expect((await fsck(store, { deep: true })).findings).toEqual([]);
  },
);

/** Appends rows of its own until the time is up; prints the ids it was told are committed. */
const APPENDER = `
import sys, time
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
path, seconds = sys.argv[1], float(sys.argv[2])
end, n, done = time.time() + seconds, 0, False
while time.time() < end or not done:
    ids = [n * 5 + i for i in range(5)]
    rows = pa.table({'tenant': pa.array(['z'] * 5), 'id': pa.array(ids, pa.int64()), 'n': pa.array(ids, pa.int32())})
    try:
        write_deltalake(DeltaTable(path), rows, mode='append', schema_mode='merge')
        print('\\n'.join(map(str, ids)), flush=True)
        done = True
    except DeltaError as error:
        print(error, file=sys.stderr)
    n += 1
    time.sleep(0.1)
`;

const suite = await requires('a foreign writer beside ours', 'python');
suite('delta-rs appends beside them', () => {
  test('its rows stand beside ours, each once', { timeout: (SECONDS + 600) * 1000 }, async () => {
    const uri = join(root, 'shared');
    const python = await pythonWith(cacheFolder(), [
      'deltalake==1.6.6',
      'duckdb==1.5.5',
      'duckdb-extension-delta==1.5.5',
      'pyarrow==22.0.0',
    ]);
    const seeded = await openMergeTable({ store: createFileStore(uri), indexDir: join(root, 'index-seed') });
    const model = newModel();
    const batch = randomBatch(seededRandom(9), 's', 1n, model);
    applyToModel(model, batch, 'merge');
    const request = { txns: [{ appId: 's', version: 0n }], info: {}, timestampMs: 0 };
    await seeded.commit(await seeded.prepare(toMergeBatch(batch)), request);
    await seeded.close();
    const appender = appended(python, uri);
    const end = Date.now() + SECONDS * 1000;
    const until = (): boolean => Date.now() > end;
    const [, ours, ids] = await Promise.all([maintain(uri, until), writer(uri, 'a', 4, until), appender]);
    expect(ids.length).toBeGreaterThan(0);
    const store = createFileStore(uri);
    const snapshot = await openSnapshot(store);
    const names = snapshot.schema.fields.map((field) => field.name);
    const rows = await canonicalRows(snapshot.schema, scan(snapshot));
    const foreign = rows.filter((row) => row.includes('"tenant":"z"'));
    expect(rows.filter((row) => !foreign.includes(row))).toEqual(expectedRows([model, ours], names).sort());
    const seen = foreign.map((row) => Number(/"id":(\d+)/.exec(row)?.[1]));
    expect(new Set(seen).size).toBe(seen.length);
    expect(ids.filter((id) => !seen.includes(id))).toEqual([]);
    expect((await fsck(store, { deep: true })).findings).toEqual([]);
  });
});

function appended(python: string, uri: string): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, ['-c', APPENDER, uri, String(SECONDS)]);
    let out = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(out.split('\n').filter(Boolean).map(Number));
      else reject(new Error(`the appender failed: ${errors.slice(-2000)}`));
    });
  });
}
