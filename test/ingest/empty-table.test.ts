import { afterEach, beforeEach, expect, test } from 'vitest';
import { CONSISTENT_KEY } from '../../services/ingest/consistent.ts';
import { waitFor } from '../support/wait-for.ts';
import { columnOf, shapeOf } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';

const full = shapeOf([columnOf('id', 'integer', 1, { notNull: true }), columnOf('v', 'text')], { version: 1 });
const none = { ...full, table: 'empty', oid: full.oid + 1, version: 2 };

let parts: Parts;
beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(full);
  await parts.reader.addShape(none);
});
afterEach(() => parts.close());

const versions = async (): Promise<Record<string, unknown>> => {
  const text = Buffer.from(await parts.lake.get(CONSISTENT_KEY).catch(() => Buffer.from('{}'))).toString();
  return (JSON.parse(text) as { tables?: Record<string, unknown> }).tables ?? {};
};

test('a table without rows is empty in the lake once its snapshot is complete, and gets no commit after that', async () => {
  const { reader } = parts;
  await reader.commit([{ shape: full, op: 'c', after: ['1', 'a'] }], { snapshotting: [`${none.schema}.empty`] });
  const ingest = await parts.start();
  await ingest.drain();
  await expect(parts.rows(`${none.schema}/empty`)).rejects.toMatchObject({ code: 'TABLE_NOT_FOUND' });
  await reader.commit([{ shape: full, op: 'c', after: ['2', 'b'] }]);
  await ingest.drain();
  await waitFor('the empty table', async () => Object.hasOwn(await versions(), `${none.schema}.empty`));
  expect((await parts.rows(`${none.schema}/empty`)).size).toBe(0);
  const version = (await versions())[`${none.schema}.empty`];
  for (const id of ['3', '4']) {
    await reader.commit([{ shape: full, op: 'c', after: [id, 'c'] }]);
    await ingest.drain();
  }
  expect((await versions())[`${none.schema}.empty`]).toEqual(version);
  await reader.commit([{ shape: none, op: 'c', after: ['7', 'first'] }]);
  await ingest.drain();
  expect([...(await parts.rows(`${none.schema}/empty`)).keys()]).toEqual(['7']);
  await reader.commit([{ shape: none, op: 'd', before: ['7', null] }]);
  await ingest.drain();
  expect((await parts.rows(`${none.schema}/empty`)).size).toBe(0);
});
