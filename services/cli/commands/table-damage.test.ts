/** Damaged tables by command: each is told by a code, with table, version and file, and `fsck` goes on and finds what it can. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { batchSource } from '../../../ops/bench/merge-batches.ts';
import { openMergeTable } from '../../../lakehouse/merge/merge-writer.ts';
import { createFileStore } from '../../../lakehouse/store/file-store.ts';
import { writeCheckpoint } from '../../../lakehouse/table/checkpoint.ts';
import { deletionVectorKey } from '../../../lakehouse/table/deletion-vector.ts';
import { commitKey } from '../../../lakehouse/table/log-files.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import { runCommand, type CommandResult } from '../../../test/support/command-in-process.ts';
import type { CliContext } from '../command.ts';
import { sqlCommand } from './sql.ts';
import { tableCommands } from './table.ts';

const root = mkdtempSync(join(tmpdir(), 'sluice-damage-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const whole = join(root, 'whole');
let tables = 0;

const register = (program: Command, context: CliContext): void => {
  sqlCommand(program, context);
  tableCommands(program, context);
};
const sluice = (lake: string, args: readonly string[], settings = ''): Promise<CommandResult> =>
  runCommand(lake, register, args, settings);
const sql = (lake: string): Promise<CommandResult> =>
  sluice(lake, ['sql', '--json', 'SELECT count(note) n FROM public.t']);
const fsck = async (lake: string): Promise<{ code: number; found: unknown[] }> => {
  const { code, out } = await sluice(lake, ['table', 'fsck', 'public.t', '--json']);
  return { code, found: (JSON.parse(out) as { findings: { kind: string }[] }).findings.map(({ kind }) => kind) };
};

/** Versions 0 to 3: created, 2,000 rows, 300 of them updated twice; a checkpoint at 2; and its key index. */
beforeAll(async () => {
  const store = createFileStore(join(whole, 'public', 't'));
  const table = await openMergeTable({ store, indexDir: join(whole, 'state', 'index', 'public', 't') });
  const source = batchSource(7);
  for (const [i, batch] of [source.load(2_000), source.mixed(2_000, 300, 5), source.mixed(2_000, 300, 5)].entries()) {
    const txns = [{ appId: 'a', version: BigInt(i) }];
    await table.commit(await table.prepare(batch), { txns, info: {}, timestampMs: 0 });
    if (i === 1) await writeCheckpoint(await openSnapshot(store, { tombstones: true }));
  }
  await table.close();
});

function copy(): { lake: string; table: string; log: (version: number) => string; find(pattern: RegExp): string } {
  const lake = join(root, String(++tables));
  cpSync(whole, lake, { recursive: true });
  const table = join(lake, 'public', 't');
  return {
    lake,
    table,
    log: (version) => join(table, commitKey(BigInt(version))),
    find: (pattern) => join(table, readdirSync(table).find((name) => pattern.test(name)) ?? ''),
  };
}
type Copy = ReturnType<typeof copy>;
const garble = (path: string, at: number): void => {
  const bytes = readFileSync(path);
  bytes[at]! ^= 0xff;
  writeFileSync(path, bytes);
};
const PART = /^part-.*\.parquet$/;
const VECTOR = /^deletion_vector_.*\.bin$/;

describe('a damaged table', { timeout: 30_000 }, () => {
  it.each([
    ['a data file that vanished', (t: Copy) => rmSync(t.find(PART)), 'a data file is gone', 'file-missing'],
    ['a data file cut short', (t: Copy) => truncateSync(t.find(PART), 90), 'the log says', 'file-size'],
    [
      'a data file overwritten',
      (t: Copy) => garble(t.find(PART), readFileSync(t.find(PART)).length - 3),
      'cannot be read',
      'file-unreadable',
    ],
    [
      'a vector file that vanished',
      (t: Copy) => rmSync(t.find(VECTOR)),
      'deletion vector file is gone',
      'vector-missing',
    ],
    ['a vector file cut short', (t: Copy) => truncateSync(t.find(VECTOR), 20), 'cut short', 'vector-wrong'],
    ['a vector with a wrong CRC', (t: Copy) => garble(t.find(VECTOR), 30), 'checksum is wrong', 'vector-wrong'],
  ])('%s fails by name and is found', async (_, damage, words, kind) => {
    const t = copy();
    await keepNewestVector(t.table);
    damage(t);
    const failed = await sql(t.lake);
    expect(failed.code).toBe(1);
    expect(failed.error).toContain(words);
    expect(failed.error).toMatch(/\[table file:\/\/\/.*public\/t, version 3, file \S+\]/);
    const { code, found } = await fsck(t.lake);
    expect(code).toBe(1);
    expect(found).toContain(kind);
  });

  it.each([
    ['a commit missing in the middle', (t: Copy) => rmSync(t.log(2)), 'version 2', 'LOG_HOLE'],
    ['a commit without a byte', (t: Copy) => truncateSync(t.log(3), 0), 'version 3', 'no content'],
    ['a commit cut short', (t: Copy) => truncateSync(t.log(3), 100), 'version 3', 'cannot be read'],
    [
      'a commit of a newer protocol',
      (t: Copy) => writeFileSync(t.log(4), '{"protocol":{"minReaderVersion":9,"minWriterVersion":9}}\n'),
      'version 4',
      'reader version 9',
    ],
  ])('%s fails by name', async (_, damage, version, words) => {
    const t = copy();
    rmSync(join(t.table, '_delta_log', '_last_checkpoint'));
    for (const name of readdirSync(join(t.table, '_delta_log')))
      if (name.includes('.checkpoint.') || name.endsWith('.crc')) rmSync(join(t.table, '_delta_log', name));
    damage(t);
    const failed = await sql(t.lake);
    expect(failed.code).toBe(4);
    expect(failed.error).toMatch(
      new RegExp(`\\[table file:///.*public/t, ${version}, file _delta_log/\\d{20}\\.json\\]`),
    );
    expect(failed.error).toContain(words === 'LOG_HOLE' ? 'is missing' : words);
    if (words === 'LOG_HOLE') {
      const history = await sluice(t.lake, ['table', 'history', 'public.t']);
      expect(history).toMatchObject({ code: 4, error: expect.stringContaining('commit 2 is missing') as string });
      expect(history.out).toMatch(/^3 /m);
    }
  });

  const metaData = (provider: string, fields: string): string =>
    `${JSON.stringify({
      metaData: {
        id: 'x',
        format: { provider, options: {} },
        schemaString: `{"type":"struct","fields":[${fields}]}`,
        partitionColumns: [],
        configuration: {},
      },
    })}\n`;
  const field = (name: string, type: string): string => JSON.stringify({ name, type, nullable: true, metadata: {} });
  const lone = (t: Copy): string =>
    readFileSync(t.log(3), 'utf8')
      .split('\n')
      .find((line) => line.startsWith('{"add"')) ?? '';
  it.each([
    ['a schema that is none', metaData('parquet', '}'), 'schema cannot be read', '_delta_log/0{19}4\\.json'],
    ['a type of a newer engine', metaData('parquet', field('id', 'money')), '"money"', '_delta_log/0{19}4\\.json'],
    ['files of another format', metaData('orc', ''), 'the files are orc', '_delta_log/0{19}4\\.json'],
  ])('%s fails by name', async (_, commit, words, file) => {
    const t = copy();
    writeFileSync(t.log(4), commit);
    for (const failed of [await sql(t.lake), await sluice(t.lake, ['table', 'schema', 'public.t'])]) {
      expect(failed.error).toContain(words);
      expect(failed.error).toMatch(new RegExp(`version 4, file ${file}\\]`));
    }
  });

  it('a column whose files are of another type is no row of other values', async () => {
    const t = copy();
    writeFileSync(t.log(4), metaData('parquet', [field('id', 'string'), field('note', 'integer')].join()));
    const failed = await sql(t.lake);
    expect(failed).toMatchObject({ code: 1, error: expect.stringContaining('that column note is integer') as string });
    expect((await fsck(t.lake)).found).toContain('file-unreadable');
  });

  it('a file outside the table is none of its files', async () => {
    const t = copy();
    writeFileSync(t.log(4), `${lone(t).replace(/"path":"[^"]*"/, '"path":"../../elsewhere.parquet"')}\n`);
    const failed = await sql(t.lake);
    expect(failed.error).toMatch(/not inside the table; run fsck \[table .*version 4, file \.\.\/\.\.\/elsewhere/);
    expect((await fsck(t.lake)).found).toContain('file-missing');
  });

  it('a partition value that is none of its type is told of with its file', async () => {
    const t = copy();
    const schema = [field('id', 'long'), field('day', 'date')].join();
    writeFileSync(t.log(4), metaData('parquet', schema).replace('"partitionColumns":[]', '"partitionColumns":["day"]'));
    writeFileSync(t.log(5), `${lone(t).replace('"partitionValues":{}', '"partitionValues":{"day":"noon"}')}\n`);
    const failed = await sluice(t.lake, ['sql', 'SELECT max(day) FROM public.t']);
    expect(failed.error).toMatch(/a data file cannot be read: .*\[table .*version 5, file part-/);
  });

  it('a table without columns has no rows to show', async () => {
    const t = copy();
    for (const name of readdirSync(join(t.table, '_delta_log'))) rmSync(join(t.table, '_delta_log', name));
    writeFileSync(t.log(0), `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n${metaData('parquet', '')}`);
    const count = await sluice(t.lake, ['sql', '--json', 'SELECT count(*) n FROM public.t']);
    expect(count).toMatchObject({ code: 0, out: '[{"n":0}]\n' });
    expect(await sluice(t.lake, ['sql', '--json', 'SELECT * FROM public.t'])).toMatchObject({ code: 0, out: '[]\n' });
  });

  it('a damaged checkpoint is done without while the commits are there, and found', async () => {
    const t = copy();
    const checkpoint = join(t.table, '_delta_log', '00000000000000000002.checkpoint.parquet');
    truncateSync(checkpoint, 100);
    expect(await sql(t.lake)).toMatchObject({ code: 0, out: '[{"n":2010}]\n' });
    expect(await fsck(t.lake)).toEqual({ code: 1, found: ['checkpoint-unreadable'] });
    rmSync(t.log(0));
    const failed = await sql(t.lake);
    expect(failed.code).toBe(4);
    expect(failed.error).toMatch(/version 2, file _delta_log\/0{19}2\.checkpoint\.parquet\]/);
  });

  it('a wrong checksum file is warned of by readers, refused by writers, and found', async () => {
    const t = copy();
    writeFileSync(join(t.table, '_delta_log', '00000000000000000003.crc'), '{"numFiles":77}');
    const read = await sql(t.lake);
    expect(read).toMatchObject({ code: 0, out: '[{"n":2010}]\n' });
    expect(read.err).toMatch(/warning: .*numFiles is 77.*version 3, file _delta_log\/0{19}3\.crc\] \(SLU-5016\)/);
    expect(await fsck(t.lake)).toEqual({ code: 1, found: ['checksum-wrong'] });
    const refused = await sluice(t.lake, ['table', 'optimize', 'public.t']);
    expect(refused).toMatchObject({ code: 1, error: expect.stringContaining('numFiles is 77') as string });
  });

  it('an output that cannot be written is refused before the query runs', async () => {
    const out = join(root, 'nosuch', 'x.csv');
    const refused = await sluice(whole, ['sql', '-o', out, 'SELECT 1']);
    expect(refused).toMatchObject({ code: 2, error: expect.stringContaining('cannot write') as string });
  });
});

/** Removes the vector files that only older versions name. */
async function keepNewestVector(table: string): Promise<void> {
  const { files, store } = await openSnapshot(createFileStore(table));
  const named = new Set(
    [...files].map((file) => file.deletionVector && deletionVectorKey(file.deletionVector, store.uri)),
  );
  const vectors = readdirSync(table).filter((name) => VECTOR.test(name));
  for (const name of vectors) if (!named.has(name)) rmSync(join(table, name));
  expect(readdirSync(table).filter((name) => VECTOR.test(name))).toHaveLength(1);
}

describe('sluice table fsck --repair', { timeout: 30_000 }, () => {
  const wrongIndex = (): Copy => {
    const t = copy();
    const folder = join(t.lake, 'state', 'index', 'public', 't');
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.run'))) {
      const bytes = readFileSync(join(folder, name));
      for (let at = 17; at < bytes.length / 2; at += 40) bytes[at]! ^= 1;
      writeFileSync(join(folder, name), bytes);
    }
    return t;
  };

  it('builds a wrong key index anew', async () => {
    const t = wrongIndex();
    const settings = `state: ${join(t.lake, 'state')}\nhttp: {port: 1}`;
    const check = (...flags: string[]): Promise<CommandResult> =>
      sluice(t.lake, ['table', 'fsck', 'public.t', '--json', ...flags], settings);
    expect((await check()).code).toBe(1);
    const repaired = await check('--repair');
    expect(repaired.code).toBe(0);
    expect(JSON.parse(repaired.out)).toMatchObject({ rebuiltAt: 3, findings: [] });
    expect((await check()).code).toBe(0);
  });

  it('leaves the index alone while a service runs on it', async () => {
    const t = wrongIndex();
    const service = createServer((_, response) => response.end('{}')).listen(0, '127.0.0.1');
    await new Promise((listening) => service.once('listening', listening));
    try {
      const { port } = service.address() as AddressInfo;
      const refused = await sluice(
        t.lake,
        ['table', 'fsck', 'public.t', '--repair'],
        `state: ${join(t.lake, 'state')}\nhttp: {port: ${port}}`,
      );
      expect(refused).toMatchObject({ code: 2, error: expect.stringContaining('a running service') as string });
    } finally {
      service.close();
    }
  });
});
