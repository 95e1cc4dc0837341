/** A table whose files lie with another table, by absolute paths, as SHALLOW CLONE leaves it. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { canonicalRows } from '../../test/support/canonical-rows.ts';
import { createFileStore } from '../store/file-store.ts';
import { NO_ACTIONS } from '../table/actions.ts';
import { buildColumn } from '../table/column-build.ts';
import { commitTo } from '../table/commit.ts';
import { createTable } from '../table/create.ts';
import { encodeDeletionVectors } from '../table/deletion-vector.ts';
import type { StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { compactTable } from '../upkeep/compact.ts';
import { vacuum } from '../upkeep/vacuum.ts';
import { appendBatch } from '../write/append-batch.ts';
import { scan } from './scan.ts';
import { runSql } from './sql.ts';

const root = mkdtempSync(join(tmpdir(), 'sluice clone %-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

test('is read with its vectors, appended to, and not rewritten; the other table keeps its files', async () => {
  const schema: StructType = { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }] };
  const batch = (from: bigint) => ({
    rowCount: 4,
    names: ['id'],
    columns: [buildColumn('long', 4, (i) => from + BigInt(i))],
  });
  const source = createFileStore(join(root, 'source'));
  const made = (await appendBatch(await createTable(source, { schema }), batch(0n))).snapshot;
  const vectors = encodeDeletionVectors([Uint32Array.of(1, 2)], 'd2c639aa-8816-431a-aaf6-d3fe2512ff61');
  await source.put(vectors.key, vectors.bytes);

  const clone = createFileStore(join(root, 'clone'));
  const uri = (key: string): string => pathToFileURL(join(root, 'source', key)).href;
  const adds = [...made.files].map((file) => ({
    ...file,
    path: uri(file.path),
    deletionVector: { ...vectors.descriptors[0]!, storageType: 'p' as const, pathOrInlineDv: uri(vectors.key) },
  }));
  const empty = await createTable(clone, { schema });
  await commitTo(empty, { operation: { name: 'CLONE' }, actions: { ...NO_ACTIONS, adds } }, async () => null);
  await appendBatch(await openSnapshot(clone), batch(10n));

  const snapshot = await openSnapshot(clone);
  const rows = ['{"id":0}', '{"id":10}', '{"id":11}', '{"id":12}', '{"id":13}', '{"id":3}'];
  expect(await canonicalRows(schema, scan(snapshot))).toEqual(rows);
  const total = await runSql('SELECT sum(id) FROM t', { resolve: async () => snapshot }, async (run) => {
    for await (const part of (await run.rows()).rows) return part;
    return [];
  });
  expect(total).toEqual([['49']]);
  await expect(compactTable(snapshot, { plan: { all: true } })).rejects.toMatchObject({
    code: 'PROTOCOL_UNSUPPORTED',
    message: expect.stringContaining('shallow clone') as string,
  });
  const standing = readdirSync(join(root, 'source')).sort();
  await vacuum(clone, { now: () => Date.now() + 30 * 24 * 3_600_000 });
  expect(readdirSync(join(root, 'source')).sort()).toEqual(standing);
  expect(await canonicalRows(schema, scan(await openSnapshot(clone)))).toEqual(rows);
});
