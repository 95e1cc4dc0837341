import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { open } from 'lmdb';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openEmbeddedLog, type EmbeddedLogOptions } from '../../services/log/embedded-log.ts';
import { LogError, type EventLog, type OutgoingRecord } from '../../services/log/log.ts';
import { compileShapeEncoder, createEnvelopeEncoder } from '../../services/log/envelope-encode.ts';
import { lsn, type LogOffset } from '../../services/log/position.ts';
import { createRowBlockBuilder } from '../../services/log/row-block.ts';
import { columnOf, rowEvent, shapeOf, dataRowOf, tupleOf } from '../support/row-events.ts';

let directory: string;
const opened: EventLog[] = [];
const children: ChildProcess[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-embedded-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const log of opened.splice(0)) await log.close();
  rmSync(directory, { recursive: true, force: true });
});

async function openLog(options: Partial<EmbeddedLogOptions> = {}): Promise<EventLog> {
  const log = await openEmbeddedLog({ directory, pollMs: 5, ...options });
  opened.push(log);
  return log;
}

const topicSettings = { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false };
const records = (topic: string, count: number, bytes = 500): OutgoingRecord[] =>
  Array.from({ length: count }, (_, i) => ({
    topic,
    key: Buffer.from(`${i}`),
    value: Buffer.alloc(bytes, 0x61 + (i % 20)),
    header: null,
  }));

async function values(log: EventLog, topic: string): Promise<string[]> {
  const { earliest, end } = (await log.reader.bounds(topic)).get(0)!;
  const found: string[] = [];
  let at = earliest;
  for await (const batch of log.reader.read(topic, 0, earliest, end)) {
    for (const offset of batch.offsets) expect(offset).toBe(at++);
    found.push(...batch.values.map((value) => value!.toString()));
  }
  expect(at).toBe(end);
  return found;
}

async function codeOf(action: Promise<unknown>): Promise<string> {
  try {
    await action;
    return 'no error';
  } catch (error) {
    if (error instanceof LogError) return error.code;
    throw error;
  }
}

/** The appending process, and the lines that it prints. */
function startAppender(identity: string): { child: ChildProcess; lines: string[]; ended: Promise<void> } {
  const script = join(import.meta.dirname, 'append-until-killed.ts');
  const child = spawn(process.execPath, ['--import', 'tsx', script, directory, identity], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line));
  return { child, lines, ended: new Promise((resolve) => child.once('close', () => resolve())) };
}

/** Stops the process, and tries again as long as that happened inside a transaction, where it would hold the lock. */
async function pauseOutsideTransaction(child: ChildProcess): Promise<void> {
  await until('a pause outside a transaction', () => {
    child.kill('SIGSTOP');
    if (!existsSync(join(directory, 'busy', String(child.pid)))) return true;
    child.kill('SIGCONT');
    return false;
  });
}

async function until(what: string, check: () => boolean): Promise<void> {
  const end = Date.now() + 240_000;
  while (!check()) {
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function makeTopics(log: EventLog): Promise<void> {
  await log.admin.ensureTopics({ a: topicSettings, b: topicSettings, marks: topicSettings });
}

/** Every mark's offsets are exact, no append is half there, and no acknowledged one is missing. */
async function checkAppends(log: EventLog, acknowledged: number): Promise<void> {
  const a = await values(log, 'a');
  const b = await values(log, 'b');
  expect(a).toEqual(b);
  expect(a.length % 40).toBe(0);
  expect(a.length / 40).toBeGreaterThanOrEqual(acknowledged);
  const marks = await values(log, 'marks');
  expect(marks).toEqual(Array.from({ length: a.length / 40 }, (_, i) => `${(i + 1) * 40} ${(i + 1) * 40}`));
  a.forEach((value, i) => expect(value.split(' ')[1]).toBe(String(Math.floor(i / 40))));
}

describe('the embedded log', () => {
  test('loses nothing acknowledged and shows nothing half, whenever its writer is killed', async () => {
    const log = await openLog();
    await makeTopics(log);
    let acknowledged = 0;
    for (let run = 0; run < 6; run++) {
      const { child, lines, ended } = startAppender('shop');
      await until('appends', () => lines.filter((line) => line.startsWith('done')).length > 3 + run * 7);
      child.kill('SIGKILL');
      await ended;
      const last = lines.filter((line) => line.startsWith('done')).at(-1);
      acknowledged = Number(last?.split(' ')[1]);
      await checkAppends(log, acknowledged);
    }
    expect(acknowledged).toBeGreaterThan(50);
  });

  test('stops a paused writer that wakes up after another took over, without harm to what that one wrote', async () => {
    const log = await openLog();
    await makeTopics(log);
    const first = startAppender('shop');
    await until('appends of the first', () => first.lines.length > 5);
    await pauseOutsideTransaction(first.child);
    const second = startAppender('shop');
    await until('appends of the second', () => second.lines.length > 10);
    first.child.kill('SIGCONT');
    await first.ended;
    expect(first.lines.at(-1)).toBe('stopped LOG_FENCED');
    const seen = second.lines.length;
    await until('more of the second', () => second.lines.length > seen + 10);
    second.child.kill('SIGKILL');
    await second.ended;
    await checkAppends(
      log,
      Number(
        second.lines
          .filter((line) => line.startsWith('done'))
          .at(-1)
          ?.split(' ')[1],
      ),
    );
  });

  test('names the process that holds the lock when it is paused, instead of standing still', async () => {
    const log = await openLog();
    await makeTopics(log);
    const { child, lines } = startAppender('shop');
    await until('appends', () => lines.length > 5);
    child.kill('SIGSTOP');
    // As if it had been stopped in the middle of its transaction.
    writeFileSync(join(directory, 'busy', String(child.pid)), '');
    await expect(log.writer('other')).rejects.toThrow(new RegExp(`process ${child.pid} holds`));
    child.kill('SIGKILL');
    await until('its end', () => child.exitCode !== null || child.signalCode !== null);
    const writer = await log.writer('other');
    await writer.append(records('a', 1));
  });

  test('a follower in this process sees what another process appends', async () => {
    const log = await openLog();
    await makeTopics(log);
    const { lines } = startAppender('shop');
    const stop = new AbortController();
    let at = 0n;
    for await (const batch of log.reader.follow('a', 0, 0n as LogOffset, { signal: stop.signal })) {
      for (const offset of batch.offsets) expect(offset).toBe(at++);
      if (at > 400n) stop.abort();
    }
    expect(lines.length).toBeGreaterThan(9);
  });

  test('names the topic, partition and offset of a damaged chunk, and of a file that was taken away', async () => {
    const log = await openLog({ chunkBytes: 5000 });
    await log.admin.ensureTopics({ a: topicSettings });
    const writer = await log.writer('shop');
    await writer.append(records('a', 100));
    const file = join(directory, 'segments', '0000000001.seg');
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, Buffer.from('damage'), 0, 6, 30_000);
    closeSync(descriptor);
    const offsetsOf = async (): Promise<bigint> => {
      let last = -1n;
      try {
        for await (const batch of log.reader.read('a', 0, 0n as LogOffset, 100n as LogOffset, { batchBytesMax: 1 })) {
          last = batch.nextOffset;
        }
      } catch (error) {
        expect(error).toMatchObject({ code: 'LOG_CORRUPT', retriable: false });
        expect(String(error)).toContain(`a[0], the chunk at offset ${last}`);
      }
      return last;
    };
    expect(await offsetsOf()).toBeGreaterThan(30n);
    rmSync(file);
    await expect(values(log, 'a')).rejects.toMatchObject({ code: 'LOG_CORRUPT' });
  });

  test('refuses a newer format by name, and an index that is none', async () => {
    const log = await openLog();
    await log.close();
    opened.pop();
    const db = open<Buffer, Buffer>({
      path: join(directory, 'index.mdb'),
      noSubdir: true,
      encoding: 'binary',
      keyEncoding: 'binary',
      overlappingSync: false,
    });
    db.putSync(Buffer.from('Mformat'), Buffer.from([0, 0, 0, 9]));
    await db.close();
    expect(await codeOf(openLog())).toBe('LOG_FORMAT_NEWER');
    const other = join(directory, 'other');
    mkdirSync(other);
    const descriptor = openSync(join(other, 'index.mdb'), 'w');
    writeSync(descriptor, Buffer.alloc(65_536, 0x61));
    closeSync(descriptor);
    expect(await codeOf(openEmbeddedLog({ directory: other }))).toBe('LOG_CORRUPT');
  });

  test('keeps released records for their retention, drops them by bytes, and never drops what is not released', async () => {
    let now = 1_000_000;
    const log = await openLog({ clock: () => now, retentionBytes: 200_000, chunkBytes: 10_000, segmentBytes: 50_000 });
    await log.admin.ensureTopics({ a: { ...topicSettings, retentionMs: 1000 }, b: topicSettings });
    const writer = await log.writer('shop');
    await writer.append([...records('a', 100), ...records('b', 100)]);
    await log.admin.releaseUpTo('a', new Map([[0, 50n as LogOffset]]));
    expect((await log.reader.bounds('a')).get(0)).toEqual({ earliest: 0n, end: 100n });
    now += 2000;
    await log.admin.releaseUpTo('a', new Map([[0, 50n as LogOffset]]));
    const { earliest } = (await log.reader.bounds('a')).get(0)!;
    expect(earliest).toBeGreaterThan(20n);
    expect(earliest).toBeLessThanOrEqual(50n);
    expect((await values(log, 'a')).length).toBe(Number(100n - earliest));

    // Over the byte limit, released records go although their topic would keep them for ever.
    for (let i = 0; i < 10; i++) await writer.append(records('b', 100));
    await log.admin.releaseUpTo('b', new Map([[0, 1000n as LogOffset]]));
    const kept = (await log.reader.bounds('b')).get(0)!;
    expect(kept.earliest).toBeGreaterThan(500n);
    expect(kept.end).toBe(1100n);
    await values(log, 'b');
    const files = readdirSync(join(directory, 'segments'));
    const bytes = files.reduce((sum, file) => sum + statSync(join(directory, 'segments', file)).size, 0);
    expect(bytes).toBeLessThan(400_000);
  });

  test('a table that is held back keeps its own records, not the files it shares with tables that went on', async () => {
    const log = await openLog({ retentionBytes: 0, chunkBytes: 4000, segmentBytes: 60_000 });
    await log.admin.ensureTopics({ busy: topicSettings, paused: topicSettings });
    const writer = await log.writer('shop');
    const bytesOnDisk = (): number =>
      readdirSync(join(directory, 'segments'))
        .map((file) => statSync(join(directory, 'segments', file)).size)
        .reduce((sum, size) => sum + size, 0);
    for (let i = 0; i < 30; i++) {
      const held = { topic: 'paused', key: Buffer.from('k'), value: Buffer.from(`held ${i}`), header: null };
      await writer.append([...records('busy', 60), held]);
    }
    const before = bytesOnDisk();
    // A range read that began before the files are moved.
    const slow: string[] = [];
    const reading = (async () => {
      for await (const batch of log.reader.read('paused', 0, 0n as LogOffset, 30n as LogOffset, { batchBytesMax: 1 })) {
        slow.push(...batch.values.map((value) => value!.toString()));
        await new Promise((resolve) => setTimeout(resolve, 3));
      }
    })();
    for (let i = 0; i < 40; i++) await log.admin.releaseUpTo('busy', new Map([[0, 1800n as LogOffset]]));
    await reading;
    expect(bytesOnDisk()).toBeLessThan(before / 4);
    const expected = Array.from({ length: 30 }, (_, i) => `held ${i}`);
    expect(slow).toEqual(expected);
    expect(await values(log, 'paused')).toEqual(expected);
    await writer.append(records('paused', 1));
    expect(await values(log, 'paused')).toHaveLength(31);
    const again = await openLog();
    await (await again.writer('shop')).append(records('paused', 1));
    expect(await values(again, 'paused')).toHaveLength(32);
  });

  test('a log that was wiped has another identity, and offsets that start again', async () => {
    const log = await openLog();
    const id = await log.admin.logId();
    await log.close();
    opened.pop();
    rmSync(directory, { recursive: true });
    const again = await openLog();
    expect(await again.admin.logId()).not.toBe(id);
    expect(await again.admin.topics()).toEqual([]);
  });

  test('says that the disk is full, keeps what it had, and goes on when there is room', async (context) => {
    const disk = join(directory, 'disk');
    mkdirSync(disk);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      context.skip('mounting a small file system is not allowed here');
    }
    try {
      const log = await openEmbeddedLog({ directory: disk, segmentBytes: 1_000_000, retentionBytes: 0 });
      opened.push(log);
      await log.admin.ensureTopics({ a: topicSettings });
      const writer = await log.writer('shop');
      let appended = 0;
      let code = 'no error';
      for (let i = 0; i < 40 && code === 'no error'; i++) {
        code = await codeOf(writer.append(records('a', 1000, 1000)));
        if (code === 'no error') appended += 1000;
      }
      expect(code).toBe('LOG_DISK_FULL');
      expect(appended).toBeGreaterThan(5000);
      expect(await codeOf(writer.append(records('a', 1000, 1000)))).toBe('LOG_DISK_FULL');
      expect((await values(log, 'a')).length).toBe(appended);
      await log.admin.releaseUpTo('a', new Map([[0, BigInt(appended - 1000) as LogOffset]]));
      await writer.append(records('a', 1000, 1000));
      const { earliest, end } = (await log.reader.bounds('a')).get(0)!;
      expect(end).toBe(BigInt(appended + 1000));
      expect((await values(log, 'a')).length).toBe(Number(end - earliest));
      await log.close();
      opened.pop();
    } finally {
      if (existsSync(disk)) execFileSync('umount', ['-l', disk], { stdio: 'ignore' });
    }
  });
});

describe('a block of rows', () => {
  const shape = shapeOf([columnOf('id', 'bigint', 1), columnOf('body', 'text')]);
  const source = { name: 'p', database: 'd' };
  function blockOf(from: number, count: number): OutgoingRecord {
    const builder = createRowBlockBuilder();
    for (let i = from; i < from + count; i++) {
      const row = dataRowOf([String(i), i % 3 === 0 ? null : `body ${i} "é"`]);
      builder.add(row, 0, row.length, 1);
    }
    const head = { shape, source, epoch: 1, lsn: lsn(500n), firstOrd: from * 2, committedAtMicros: 9n, atMs: 7 };
    const [value = null, ...rest] = builder.finish(head);
    return { topic: 'rows', key: null, value, header: null, partition: 0, rows: count, rest };
  }
  function envelopeOf(i: number): string {
    const encoder = createEnvelopeEncoder();
    const after = tupleOf([String(i), i % 3 === 0 ? null : `body ${i} "é"`]);
    const change = {
      op: 'r' as const,
      lsn: lsn(500n),
      ord: i * 2,
      committedAtMicros: 9n,
      atMs: 7,
      xid: 0,
      totalOrder: 0,
    };
    const { key, value, header } = encoder.encode(compileShapeEncoder(shape, source), rowEvent({ ...change, after }));
    return `${key?.toString()} ${value.toString()} ${header.toString('hex')}`;
  }
  const plain = (text: string): OutgoingRecord => ({
    topic: 'rows',
    key: null,
    value: Buffer.from(text),
    header: null,
  });

  test('takes an offset a row, and is read as the records that it stands for, from any offset to any', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({ rows: topicSettings });
    const writer = await log.writer('w');
    const next = await writer.append([plain('first'), blockOf(0, 100), plain('between'), blockOf(100, 50)], (known) => [
      plain(`mark at ${known.get('rows')?.get(0)}`),
    ]);
    expect(next.get('rows')?.get(0)).toBe(153n);
    const expected = [
      'first',
      ...Array.from({ length: 100 }, (_, i) => envelopeOf(i)),
      'between',
      ...Array.from({ length: 50 }, (_, i) => envelopeOf(100 + i)),
      'mark at 152',
    ];
    for (const [from, to] of [
      [0n, 153n],
      [1n, 2n],
      [50n, 120n],
      [100n, 103n],
      [152n, 153n],
    ] as const) {
      const found: string[] = [];
      let at: bigint = from;
      for await (const batch of log.reader.read('rows', 0, from as LogOffset, to as LogOffset, {
        batchBytesMax: 3000,
      })) {
        for (const [i, offset] of batch.offsets.entries()) {
          expect(offset).toBe(at++);
          const header = batch.headers[i] ?? null;
          const value = batch.values[i]?.toString() ?? '';
          found.push(header === null ? value : `${batch.keys[i]?.toString()} ${value} ${header.toString('hex')}`);
        }
        expect(batch.nextOffset).toBe(at);
      }
      expect(found).toEqual(expected.slice(Number(from), Number(to)));
    }
  });

  test('comes as a block to a reader that asks for it, between the records around it', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({ rows: topicSettings });
    const writer = await log.writer('w');
    await writer.append([plain('first'), blockOf(0, 100), plain('last')]);
    const seen: string[] = [];
    for await (const batch of log.reader.read('rows', 0, 0n as LogOffset, 102n as LogOffset, { rowBlocks: true })) {
      const { block } = batch;
      seen.push(block === undefined ? `${batch.values.join()}` : `rows ${block.from} to ${block.to} of ${block.base}`);
      seen.push(`next ${batch.nextOffset}`);
    }
    expect(seen).toEqual(['first', 'next 1', 'rows 0 to 100 of 1', 'next 101', 'last', 'next 102']);
    const inside = [];
    for await (const { block } of log.reader.read('rows', 0, 11n as LogOffset, 21n as LogOffset, { rowBlocks: true }))
      inside.push([block?.base, block?.from, block?.to]);
    expect(inside).toEqual([[1n, 10, 20]]);
  });

  test('outlives a reopening, is followed, released as a whole, and its damage is found', async () => {
    const first = await openLog();
    await first.admin.ensureTopics({ rows: { ...topicSettings, retentionMs: 0 } });
    const writer = await first.writer('w');
    await writer.append([blockOf(0, 100), plain('behind')]);
    await first.close();
    opened.splice(0);
    const log = await openLog();
    const stop = new AbortController();
    let followed = 0;
    for await (const batch of log.reader.follow('rows', 0, 0n as LogOffset, { signal: stop.signal })) {
      followed += batch.offsets.length;
      if (followed === 101) stop.abort();
    }
    await log.admin.releaseUpTo('rows', new Map([[0, 50n as LogOffset]]));
    expect((await log.reader.bounds('rows')).get(0)?.earliest).toBe(0n);
    const [segment = ''] = readdirSync(join(directory, 'segments'));
    const file = openSync(join(directory, 'segments', segment), 'r+');
    writeSync(file, Buffer.from('!'), 0, 1, 400);
    closeSync(file);
    const read = async (): Promise<void> => {
      for await (const _ of log.reader.read('rows', 0, 0n as LogOffset, 1n as LogOffset, { rowBlocks: true }));
    };
    expect(await codeOf(read())).toBe('LOG_CORRUPT');
  });
});
