import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { filesOf, objectsOf, removeFiles } from './own-places.ts';

const folder = temporaryFolder('own-places');

it('a state folder goes whole when nothing else is in it', () => {
  const state = join(folder, 'state');
  for (const name of ['index', 'log/segments', 'worker-1/index']) mkdirSync(join(state, name), { recursive: true });
  const files = filesOf(state, 'state');
  expect(files.strangers).toEqual([]);
  removeFiles(files);
  expect(existsSync(state)).toBe(false);
});

it('of a folder with other things only the own ones go: a lake may stand on the same volume', () => {
  const volume = join(folder, 'volume');
  for (const name of ['index', 'lake', 'log']) mkdirSync(join(volume, name), { recursive: true });
  writeFileSync(join(volume, 'sluice.yaml'), '');
  const files = filesOf(volume, 'state');
  expect(files.strangers.toSorted()).toEqual(['lake', 'sluice.yaml']);
  removeFiles(files);
  expect(readdirSync(volume).toSorted()).toEqual(['lake', 'sluice.yaml']);
});

it('a file, or nothing, where the folder should be is not of the pipeline', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(filesOf(file, 'state').own).toEqual([]);
  expect(filesOf(join(folder, 'absent'), 'log').own).toEqual([]);
});

const commit = (...txns: string[]): Buffer =>
  Buffer.from(
    [
      { protocol: { minReaderVersion: 1, minWriterVersion: 2 } },
      {
        metaData: {
          id: 'a',
          format: { provider: 'parquet', options: {} },
          schemaString: '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}',
          partitionColumns: [],
          configuration: {},
        },
      },
      ...txns.map((appId) => ({ txn: { appId, version: 1 } })),
    ]
      .map((action) => JSON.stringify(action))
      .join('\n'),
  );

it('of a lake only what the pipeline wrote goes: other tables and objects are named', async () => {
  const lake = createMemoryStore();
  const put = (key: string, body: Uint8Array = Buffer.from('x')): Promise<void> => lake.put(key, body);
  const log = '_delta_log/00000000000000000000.json';
  await put('_sluice/pipeline.json', Buffer.from('{"formatVersion":1,"name":"shop"}'));
  await put(`public/orders/${log}`, commit('shop/e1', 'shop/epoch'));
  await put('public/orders/part-0.parquet');
  await put(`public/orders_old/${log}`, commit('shop2/e1', 'shop2/epoch'));
  await put(`sales/${log}`, commit());
  await put(`public/broken/${log}`, Buffer.from('{'));
  await put('photos/a.jpg');
  await put('readme.txt');
  const { own, strangers } = await objectsOf(lake, 'shop', true);
  expect(own.toSorted()).toEqual(['_sluice/pipeline.json', `public/orders/${log}`, 'public/orders/part-0.parquet']);
  expect(strangers.toSorted()).toEqual(['photos/', 'public/broken/', 'public/orders_old/', 'readme.txt', 'sales/']);
  expect((await objectsOf(lake, 'shop', false)).own).toEqual(['_sluice/pipeline.json']);
  expect((await objectsOf(lake, 'other', false)).own).toEqual([]);
});
