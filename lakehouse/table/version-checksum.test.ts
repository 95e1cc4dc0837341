import { describe, expect, test } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { appendBatch } from '../write/append-batch.ts';
import { cleanLog } from '../upkeep/clean-log.ts';
import { compactTable } from '../upkeep/compact.ts';
import { fsck } from '../upkeep/fsck.ts';
import { restoreTable } from '../upkeep/restore.ts';
import { vacuum } from '../upkeep/vacuum.ts';
import { writeCheckpoint } from './checkpoint.ts';
import { buildColumn } from './column-build.ts';
import { createTable } from './create.ts';
import { openSnapshot } from './snapshot.ts';
import { checksumKey } from './version-checksum.ts';

async function tableWithChecksum(): Promise<ObjectStore> {
  const store = createMemoryStore();
  const field = { name: 'id', type: 'long', nullable: true, metadata: {} } as const;
  let table = await createTable(store, { schema: { type: 'struct', fields: [field] } });
  for (let i = 0n; i < 3n; i++) {
    const batch = { rowCount: 1, names: ['id'], columns: [buildColumn('long', 1, () => i)] };
    table = (await appendBatch(table, batch, { txn: { appId: 'a', version: i + 2n ** 53n - 10n } })).snapshot;
  }
  await writeCheckpoint(await openSnapshot(store, { tombstones: true }));
  return store;
}
const read = async (store: ObjectStore): Promise<Record<string, unknown>> =>
  JSON.parse(new TextDecoder().decode(await store.get(checksumKey(3n)))) as Record<string, unknown>;
const keysOf = async (store: ObjectStore): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of store.list('')) keys.push(key);
  return keys;
};
const write = (store: ObjectStore, text: string): Promise<void> =>
  store.put(checksumKey(3n), new TextEncoder().encode(text));

describe('a version checksum', () => {
  test('is written beside a checkpoint, exact, and never over one that stands', async () => {
    const store = await tableWithChecksum();
    const { files } = await openSnapshot(store);
    expect(await read(store)).toMatchObject({
      numFiles: 3,
      tableSizeBytes: Number(files.sizeBytes),
      numDeletedRecordsOpt: 0,
      numMetadata: 1,
      numProtocol: 1,
    });
    expect(new TextDecoder().decode(await store.get(checksumKey(3n)))).toContain('"version":9007199254740984');
    await write(store, '{"numFiles":3}');
    await writeCheckpoint(await openSnapshot(store, { tombstones: true }));
    expect(await read(store)).toEqual({ numFiles: 3 });
  });

  test.each([
    ['numFiles', { numFiles: 4 }],
    ['tableSizeBytes', { tableSizeBytes: 1 }],
    ['numDeletedRecordsOpt', { numDeletedRecordsOpt: 5 }],
    ['its metadata', { metadata: { id: 'another' } }],
    ['minWriterVersion', { protocol: { minReaderVersion: 3, minWriterVersion: 2 } }],
    ['transaction a', { setTransactions: [{ appId: 'a', version: 7 }] }],
    ['its columns', { metadata: { schemaString: '{"type":"struct","fields":[]}' } }],
  ])(
    'that is wrong in %s is read past and told of, stops every writer by name, and fsck finds it',
    async (word, change) => {
      const store = await tableWithChecksum();
      await write(store, JSON.stringify(change));
      const read = await openSnapshot(store, { tombstones: true });
      expect(read.files.count).toBe(3);
      expect(read.checksumFault).toEqual({ version: 3n, message: expect.stringContaining(word) as string });
      const before = await keysOf(store);
      const refused = {
        code: 'CHECKSUM_MISMATCH',
        message: expect.stringContaining(word) as string,
        place: { table: store.uri, version: 3n, file: checksumKey(3n) },
      };
      const batch = { rowCount: 1, names: ['id'], columns: [buildColumn('long', 1, () => 9n)] };
      await expect(appendBatch(read, batch)).rejects.toMatchObject(refused);
      await expect(writeCheckpoint(read)).rejects.toMatchObject(refused);
      await expect(compactTable(read)).rejects.toMatchObject(refused);
      await expect(vacuum(store)).rejects.toMatchObject(refused);
      await expect(cleanLog(store)).rejects.toMatchObject(refused);
      await expect(restoreTable(store, 1n)).rejects.toMatchObject(refused);
      expect((await keysOf(store)).filter((key) => key.startsWith('_delta_log/'))).toEqual(
        before.filter((key) => key.startsWith('_delta_log/')),
      );
      expect(await openSnapshot(store, { version: 2n })).toMatchObject({ checksumFault: null });
      expect((await fsck(store)).findings).toMatchObject([{ kind: 'checksum-wrong', file: checksumKey(3n) }]);
    },
  );

  test('that cannot be read is none, and fsck finds it', async () => {
    const store = await tableWithChecksum();
    await write(store, '{"numFi');
    expect(await openSnapshot(store)).toMatchObject({ checksumFault: null });
    expect((await fsck(store)).findings).toMatchObject([{ kind: 'checksum-wrong' }]);
  });

  test('finds a commit that was changed after it was written', async () => {
    const store = await tableWithChecksum();
    await store.delete(['_delta_log/_last_checkpoint', '_delta_log/00000000000000000003.checkpoint.parquet']);
    const key = '_delta_log/00000000000000000002.json';
    const lines = new TextDecoder().decode(await store.get(key)).split('\n');
    await store.put(key, new TextEncoder().encode(lines.filter((line) => !line.startsWith('{"add"')).join('\n')));
    expect((await openSnapshot(store)).checksumFault).toMatchObject({
      message: expect.stringContaining('numFiles is 3 in it and 2 in the log') as string,
    });
  });
});
