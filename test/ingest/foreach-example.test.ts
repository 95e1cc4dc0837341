/** The example of docs/foreach-batch.md, as a user would run it, on a real PostgreSQL. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadForeachBatch } from '../../services/stream/sinks/foreach-batch.ts';
import { columnOf, shapeOf, UNCHANGED } from '../support/row-events.ts';
import { getPostgres } from '../support/postgres.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createParts } from './bench-of-parts.ts';

const t = shapeOf([columnOf('id', 'bigint', 1), columnOf('total', 'numeric'), columnOf('body', 'text')], {
  table: 't',
  version: 1,
});

const suite = await requires('foreachBatch example', 'pg18');
suite('the foreachBatch example', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await getPostgres();
    process.env['MIRROR_URL'] = database.url;
  });
  afterAll(async () => {
    const example = await import('../../docs/examples/foreach-batch-postgres.ts');
    await example.close();
    await database.close();
  });

  it('mirrors rows exactly, and a batch that comes again changes nothing', async () => {
    const parts = await createParts();
    const { reader } = parts;
    await reader.addShape(t);
    const sink = await loadForeachBatch(join(import.meta.dirname, '../../docs/examples/foreach-batch-postgres.ts'));
    let calls = 0;
    const ingest = await parts.start({
      queries: [
        {
          name: 'mirror',
          sink: async (batch, batchId) => {
            await sink(batch, batchId);
            // The first answer is lost: the engine must give the batch again.
            if (calls++ === 0) throw new Error('connection lost after the commit');
          },
        },
      ],
    });
    await reader.commit([
      { shape: t, op: 'c', after: ['9007199254740993', '12345678901234567890.123', 'long text'] },
      { shape: t, op: 'c', after: ['2', '2', 'b'] },
    ]);
    await ingest.drain();
    await reader.commit([
      { shape: t, op: 'u', after: ['9007199254740993', '1.50', UNCHANGED] },
      { shape: t, op: 'd', before: ['2', null, null] },
      { shape: t, op: 'c', after: ['3', null, 'c'], ord: 8 },
    ]);
    await ingest.drain();
    const rows = await database.query(
      `select key->>'id' as id, row->>'total' as total, row->>'body' as body from mirror_rows order by key`,
    );
    expect(rows).toEqual([
      { id: '3', total: null, body: 'c' },
      { id: '9007199254740993', total: '1.50', body: 'long text' },
    ]);
    await reader.commit([
      { shape: t, op: 't' },
      { shape: t, op: 'c', after: ['4', '4', 'd'], ord: 2 },
    ]);
    await ingest.drain();
    expect(await database.query(`select key->>'id' as id from mirror_rows`)).toEqual([{ id: '4' }]);
    expect(calls).toBeGreaterThan(2);
    await parts.close();
  });
});
