/** Writers that race for versions, on each kind of store: every batch is in the table once, and the versions have no gap. */
import { afterAll, describe, expect, it } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { createS3Store } from '../../lakehouse/store/s3-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { writeCheckpoint } from '../../lakehouse/table/checkpoint.ts';
import { buildColumn } from '../../lakehouse/table/column-build.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import { readCommit } from '../../lakehouse/table/log-reader.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { appendBatch } from '../../lakehouse/write/append-batch.ts';
import { scan } from '../../lakehouse/read/scan.ts';
import { requires } from '../support/requirements.ts';
import { getS3 } from '../support/s3.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const WRITERS = 6;
const BATCHES = 8;

const suite = await requires('racing commits on S3', 's3');
const bucket = suite === describe ? await getS3() : null;
const folder = temporaryFolder('race');
const opened: ObjectStore[] = [];
afterAll(async () => {
  for (const store of opened) await store.close();
});

/** A store of its own for each writer, as processes have: only what they store is shared. */
const kinds: readonly (readonly [string, () => ObjectStore])[] = [
  ['local files', () => createFileStore(folder)],
  [
    'memory',
    (() => {
      const shared = createMemoryStore();
      return () => shared;
    })(),
  ],
  ...(bucket === null
    ? []
    : [
        [
          'S3',
          () =>
            createS3Store({
              bucket: bucket.bucket,
              prefix: 'race',
              endpoint: bucket.endpoint,
              region: bucket.region,
              forcePathStyle: true,
              kmsKeyId: null,
              credentials: async () => bucket,
            }),
        ] as const,
      ]),
];

describe.each(kinds)('racing writers on %s', (_kind, open) => {
  const store = (): ObjectStore => {
    const one = open();
    opened.push(one);
    return one;
  };

  it('lose and double nothing, and one of them creates the table', async () => {
    const schema = { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: false, metadata: {} }] } as const;
    const created = await Promise.allSettled(Array.from({ length: WRITERS }, () => createTable(store(), { schema })));
    expect(created.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const one of created) {
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'TABLE_EXISTS' });
    }
    await Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        let snapshot = await openSnapshot(store());
        for (let batch = 0; batch < BATCHES; batch++) {
          const id = BigInt(writer * BATCHES + batch);
          const rows = { rowCount: 1, names: ['id'], columns: [buildColumn('long', 1, () => id)] };
          const done = await appendBatch(snapshot, rows, { txn: { appId: `w${writer}`, version: BigInt(batch) } });
          expect(done.version).not.toBeNull();
          snapshot = done.snapshot;
          if (batch % 3 === writer % 3) await writeCheckpoint(snapshot);
        }
      }),
    );
    const table = await openSnapshot(store());
    expect(table.version).toBe(BigInt(WRITERS * BATCHES));
    for (let version = 0n; version <= table.version; version++) {
      expect(await readCommit(table.store, version), `version ${version}`).not.toBeNull();
    }
    const ids: bigint[] = [];
    for await (const batch of scan(table)) {
      const [column] = batch.columns;
      if (column?.kind === 'int64') ids.push(...column.values.subarray(0, column.length));
    }
    expect(ids.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
      Array.from({ length: WRITERS * BATCHES }, (_, id) => BigInt(id)),
    );
  });
});
