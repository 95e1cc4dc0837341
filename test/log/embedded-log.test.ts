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
import type { LogOffset } from '../../services/log/position.ts';

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
  const end = Date.now() + 30_000;
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
  }, 120_000);

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
