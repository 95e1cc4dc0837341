import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeParquet } from '../../../lakehouse/parquet/encode.ts';
import { createFileStore } from '../../../lakehouse/store/file-store.ts';
import { NO_ACTIONS, newAdd, removeOf } from '../../../lakehouse/table/actions.ts';
import { buildColumn } from '../../../lakehouse/table/column-build.ts';
import { commitTo } from '../../../lakehouse/table/commit.ts';
import { createTable } from '../../../lakehouse/table/create.ts';
import type { StructType } from '../../../lakehouse/table/schema.ts';
import { appendBatch } from '../../../lakehouse/write/append-batch.ts';
import { collectStats } from '../../../lakehouse/table/stats.ts';
import { runCommand, type CommandResult } from '../../../test/support/command-in-process.ts';
import { tableCommands } from './table.ts';

const lake = mkdtempSync(join(tmpdir(), 'sluice-table-cli-'));
afterAll(() => rmSync(lake, { recursive: true, force: true }));

const sluice = (...args: string[]): Promise<CommandResult> => runCommand(lake, tableCommands, ['table', ...args]);

const SCHEMA: StructType = {
  type: 'struct',
  fields: [{ name: 'id', type: 'long', nullable: true, metadata: { comment: 'the key' } }],
};
const BIG = 9007199254740993n;

beforeAll(async () => {
  const store = createFileStore(join(lake, 'public', 'orders'));
  const start = await createTable(store, { schema: SCHEMA, changeDataFeed: true });
  const batch = { rowCount: 2, names: ['id'], columns: [buildColumn('long', 2, (row) => (row === 0 ? 1n : BIG))] };
  const body = await encodeParquet(SCHEMA, batch);
  await store.put('a.parquet', body);
  const add = newAdd({
    path: 'a.parquet',
    partitionValues: {},
    size: BigInt(body.length),
    modificationTime: 0n,
    dataChange: true,
    stats: collectStats(SCHEMA, batch),
  });
  const actions = { ...NO_ACTIONS, adds: [add], txns: [{ appId: 'shop', version: BIG, lastUpdated: null }] };
  const one = await commitTo(start, { operation: { name: 'WRITE' }, actions }, async () => null);
  await commitTo(
    one.snapshot,
    { operation: { name: 'DELETE' }, actions: { ...NO_ACTIONS, removes: [removeOf(add, Date.now(), true)] } },
    async () => null,
  );
});

describe('sluice table', { timeout: 30_000 }, () => {
  it('shows a table of the lake by name, and any table by path, with exact numbers', async () => {
    const now = await sluice('show', 'public.orders', '--json');
    expect(now.code).toBe(0);
    expect(now.out).toContain('"transactions":{"shop":9007199254740993}');
    expect(JSON.parse(now.out)).toMatchObject({ version: 2, rows: 0, files: 0 });
    const then = await sluice('show', join(lake, 'public', 'orders'), '--at', '1', '--json');
    expect(JSON.parse(then.out)).toMatchObject({ version: 1, rows: 2, files: 1 });
    expect((await sluice('show', 'orders')).out).toMatch(/version\s+2/);
  });

  it('lists history, files, schema and changes', async () => {
    const history = JSON.parse((await sluice('history', 'public.orders', '--json')).out);
    expect(history.map(({ operation }: { operation: string }) => operation)).toEqual([
      'DELETE',
      'WRITE',
      'CREATE TABLE',
    ]);
    expect((await sluice('history', 'public.orders', '--limit', '1')).out.trim().split('\n')).toHaveLength(2);
    expect(JSON.parse((await sluice('files', 'public.orders', '--at', '1', '--json')).out)).toMatchObject([
      { path: 'a.parquet', rows: 2 },
    ]);
    expect((await sluice('schema', 'public.orders')).out).toMatch(/id\s+long\s+the key/);
    const changes = (await sluice('changes', 'public.orders', '--from', '1')).out.trim().split('\n');
    expect(changes).toHaveLength(4);
    expect(changes[1]).toContain('"id":9007199254740993,"_change_type":"insert"');
    expect(changes[2]).toContain('"_change_type":"delete"');
  });

  it('takes the times of the history for versions, and changes from a time on', async () => {
    const entries = JSON.parse((await sluice('history', 'public.orders', '--json')).out) as { timestamp: string }[];
    const times = entries.map(({ timestamp }) => timestamp);
    for (const [i, time] of times.entries()) {
      const shown = JSON.parse((await sluice('show', 'public.orders', '--at', time, '--json')).out);
      expect(shown).toMatchObject({ version: times.length - 1 - i, committedAt: time });
    }
    const rows = async (...range: string[]): Promise<number> =>
      (await sluice('changes', 'public.orders', ...range)).out.split('\n').length - 1;
    const justAfter = new Date(Date.parse(times[1] ?? '') + 1).toISOString();
    expect(await rows('--from', times[1] ?? '')).toBe(4);
    const first = (await sluice('changes', 'public.orders', '--from', '1', '--to', '1')).out.split('\n')[0] ?? '';
    const stamp = (JSON.parse(first) as { _commit_timestamp: string })._commit_timestamp;
    expect(Date.parse(stamp)).toBe(Date.parse(times[1] ?? ''));
    expect(await rows('--from', justAfter)).toBe(2);
    expect(await rows('--from', '2000-01-01', '--to', times[1] ?? '')).toBe(2);
    expect(await sluice('changes', 'public.orders', '--from', '2100-01-01')).toMatchObject({ code: 0, out: '' });
    expect(await sluice('changes', 'public.orders', '--from', '99')).toMatchObject({ code: 2 });
  });

  it('checks, restores, checkpoints and vacuums', async () => {
    expect(await sluice('fsck', 'public.orders')).toMatchObject({ code: 0 });
    expect(await sluice('checkpoint', 'public.orders', '--clean')).toMatchObject({ code: 0 });
    expect(await sluice('vacuum', 'public.orders')).toMatchObject({ code: 0, out: '0 files (0 B) deleted\n' });
    expect(await sluice('vacuum', 'public.orders', '--retain', '1h')).toMatchObject({ code: 2 });
    expect((await sluice('restore', 'public.orders', '--to', '1')).out).toBe('version 3 is as version 1 was\n');
    await createFileStore(join(lake, 'public', 'orders')).delete(['a.parquet']);
    const broken = await sluice('fsck', 'public.orders', '--json');
    expect(broken.code).toBe(1);
    expect(JSON.parse(broken.out).findings).toMatchObject([{ kind: 'file-missing', file: 'a.parquet' }]);
  });

  it('joins small files and purges, or sorts all', async () => {
    const store = createFileStore(join(lake, 'public', 'many'));
    let table = await createTable(store, { schema: SCHEMA });
    for (const id of [3n, 1n, 2n]) {
      const batch = { rowCount: 1, names: ['id'], columns: [buildColumn('long', 1, () => id)] };
      table = (await appendBatch(table, batch)).snapshot;
    }
    expect(JSON.parse((await sluice('optimize', 'public.many', '--json')).out)).toMatchObject({
      filesRemoved: 3,
      filesAdded: 1,
    });
    expect((await sluice('optimize', 'public.many')).out).toBe('nothing to do\n');
    expect(JSON.parse((await sluice('optimize', 'public.many', '--sort', 'id', '--json')).out)).toMatchObject({
      filesAdded: 1,
    });
    expect(await sluice('optimize', 'public.many', '--sort', 'x')).toMatchObject({ code: 2 });
    expect(await sluice('optimize', 'public.many', '--target-size', 'big')).toMatchObject({ code: 2 });
    expect((await sluice('show', 'public.many')).out).toMatch(/rows\s+3/);
  });

  it('says what is wrong with a wrong name, version or option', async () => {
    expect(await sluice('show', 'public.absent')).toMatchObject({ code: 2 });
    expect(await sluice('show', 'public.orders', '--at', '99')).toMatchObject({ code: 2 });
    expect(await sluice('show', 'public.orders', '--at', 'yesterday')).toMatchObject({ code: 2 });
    expect(await sluice('history', 'public.orders', '--limit', 'x')).toMatchObject({ code: 2 });
    expect((await sluice('show', 'ftp://x/y')).error).toContain('no object store for "ftp://"');
  });
});
