/** The same on S3: a table that we merge into is read by our scan and SQL, by delta-rs, and by CDF, over the network port. */
import { expect, it } from 'vitest';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { batchSource } from '../../ops/bench/merge-batches.ts';
import { openMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import { changesSchema, readChanges } from '../../lakehouse/read/changes.ts';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { runSql } from '../../lakehouse/read/sql.ts';
import { createS3Store } from '../../lakehouse/store/s3-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { requires } from '../support/requirements.ts';
import { getS3 } from '../support/s3.ts';
import { readWithDeltaRs } from './judge.ts';

const suite = await requires('judges on S3', 's3', 'python');

suite('a merged table on S3', () => {
  it('is read the same by scan, SQL, changes and delta-rs', async () => {
    const server = await getS3();
    const store = createS3Store({
      bucket: server.bucket,
      prefix: 'lake/public/orders',
      endpoint: server.endpoint,
      region: server.region,
      forcePathStyle: true,
      kmsKeyId: null,
      credentials: async () => server,
    });
    const indexDir = mkdtempSync(join(tmpdir(), 'sluice-judge-s3-'));
    try {
      const table = await openMergeTable({ store, indexDir, create: { changeDataFeed: true } });
      const source = batchSource(3);
      for (const [i, batch] of [source.load(2_000), source.mixed(2_000, 300, 50)].entries()) {
        const txns = [{ appId: 'judge', version: BigInt(i) }];
        await table.commit(await table.prepare(batch), { txns, info: {}, timestampMs: i });
      }
      await table.close();
    } finally {
      rmSync(indexDir, { recursive: true, force: true });
    }
    const snapshot = await openSnapshot(store);
    const ours = await canonicalRows(scanSchema(snapshot), scan(snapshot));
    expect(ours.length).toBe(2_050);
    const storage = {
      AWS_ENDPOINT_URL: server.endpoint,
      AWS_ACCESS_KEY_ID: server.accessKeyId,
      AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
      AWS_REGION: server.region,
      AWS_ALLOW_HTTP: 'true',
    };
    expect(await readWithDeltaRs(`s3://${server.bucket}/lake/public/orders`, { storage })).toEqual(ours);

    const query = 'SELECT count(*) AS n, count(DISTINCT id) AS ids, sum(amount) AS total FROM orders';
    const resolve = (): Promise<typeof snapshot> => Promise.resolve(snapshot);
    const rows = await runSql(query, { resolve }, async (run) => {
      for await (const part of (await run.rows()).rows) return part[0];
      return undefined;
    });
    let cents = 0n;
    for await (const batch of scan(snapshot, { columns: ['amount'] })) {
      const [amount] = batch.columns;
      if (amount?.kind === 'decimal') for (let i = 0; i < amount.length; i++) cents += amount.values[2 * i] ?? 0n;
    }
    const total = `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`;
    expect(rows).toEqual(['2050', '2050', total]);
    await expect(runSql(query, { resolve, diskBytesMax: 1_000 }, (run) => run.rows())).rejects.toMatchObject({
      code: 'SQL_TOO_LARGE',
    });

    const changes = await canonicalRows(changesSchema(snapshot), readChanges(store, { from: snapshot.version }));
    expect(changes.filter((row) => row.includes('"update_preimage"')).length).toBe(300);
    expect(changes.filter((row) => row.includes('"update_postimage"')).length).toBe(300);
    expect(changes.filter((row) => row.includes('"_change_type":"insert"')).length).toBe(50);
  });
});
