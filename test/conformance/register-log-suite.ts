/**
 * What every event log must do, whichever adapter it is. A harness gives handles on one and the same log, as separate
 * processes would have them.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  LogError,
  type EventLog,
  type LogBatch,
  type LogErrorCode,
  type LogReader,
  type OutgoingRecord,
  type TopicSettings,
} from '../../services/log/log.ts';
import type { LogOffset } from '../../services/log/position.ts';

export interface LogHarness {
  /** Another handle on the same log. */
  open(): Promise<EventLog>;
  /**
   * Makes records of the topic below `offset` go, as retention would (the embedded log: released and expired; Kafka:
   * deleteRecords).
   */
  expire(log: EventLog, topic: string, partition: number, offset: LogOffset): Promise<void>;
  /** True when everything acknowledged is within the topic's bounds. Absent where that is always so. */
  settled?(log: EventLog, topic: string): Promise<boolean>;
  close(): Promise<void>;
}

const offset = (value: bigint | number): LogOffset => BigInt(value) as LogOffset;
const settings = (change: Partial<TopicSettings> = {}): TopicSettings => ({
  partitions: 1,
  replicationFactor: 1,
  retentionMs: -1,
  compacted: false,
  ...change,
});

const record = (topic: string, key: string | null, value: string | null, partition?: number): OutgoingRecord => ({
  topic,
  key: key === null ? null : Buffer.from(key),
  value: value === null ? null : Buffer.from(value),
  header: Buffer.from(`h:${value ?? 'null'}`),
  ...(partition === undefined ? {} : { partition }),
});

interface Seen {
  readonly offset: bigint;
  readonly key: string | null;
  readonly value: string | null;
  readonly header: string | null;
}

function seenIn(batch: LogBatch): Seen[] {
  const text = (buffer: Buffer | null | undefined): string | null => buffer?.toString() ?? null;
  return batch.values.map((value, i) => ({
    offset: batch.offsets[i] ?? -1n,
    key: text(batch.keys[i]),
    value: text(value),
    header: text(batch.headers[i]),
  }));
}

/** Waits until what was acknowledged is within the bounds of the topic. */
let settle: (topic: string) => Promise<void> = () => Promise.resolve();

async function readAll(
  reader: LogReader,
  topic: string,
  partition = 0,
  from?: LogOffset,
  to?: LogOffset,
): Promise<Seen[]> {
  await settle(topic);
  const bounds = (await reader.bounds(topic)).get(partition);
  if (bounds === undefined) throw new Error(`no partition ${partition}`);
  const seen: Seen[] = [];
  for await (const batch of reader.read(topic, partition, from ?? bounds.earliest, to ?? bounds.end)) {
    expect([batch.topic, batch.partition]).toEqual([topic, partition]);
    expect(batch.keys).toHaveLength(batch.offsets.length);
    expect(batch.timestampsMs).toHaveLength(batch.offsets.length);
    const last = batch.offsets.at(-1);
    expect(last !== undefined && last < batch.nextOffset).toBe(true);
    seen.push(...seenIn(batch));
  }
  return seen;
}

async function codeOf(action: Promise<unknown>): Promise<LogErrorCode | 'no error'> {
  try {
    await action;
    return 'no error';
  } catch (error) {
    if (error instanceof LogError) return error.code;
    throw error;
  }
}

async function until(what: string, check: () => Promise<boolean> | boolean, deadlineMs = 240_000): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export function registerLogSuite(
  name: string,
  start: () => Promise<LogHarness>,
  suite: typeof describe | typeof describe.skip = describe,
): void {
  suite(`${name}: the log`, () => {
    let harness: LogHarness;
    let log: EventLog;
    /** A reader and admin of their own, as another process has. */
    let other: EventLog;
    const prefix = `suite-${randomUUID().slice(0, 8)}`;
    let count = 0;
    const fresh = async (change: Partial<TopicSettings> = {}): Promise<string> => {
      const topic = `${prefix}.t${++count}`;
      await log.admin.ensureTopics({ [topic]: settings(change) });
      return topic;
    };
    const identity = (): string => `${prefix}-w${++count}`;

    beforeAll(async () => {
      harness = await start();
      log = await harness.open();
      other = await harness.open();
      settle = (topic) => until('markers', async () => (await harness.settled?.(other, topic)) ?? true);
    });
    afterAll(async () => {
      await other?.close();
      await log?.close();
      await harness?.close();
    });

    test('gives back what was appended, in order, byte for byte, nulls told from empty', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      await writer.append([record(topic, 'a', '1'), record(topic, null, '2'), record(topic, 'b', null)]);
      await writer.append([{ topic, key: Buffer.alloc(0), value: Buffer.alloc(0), header: null }]);
      const bytes = randomBytes(1000);
      await writer.append([{ topic, key: bytes, value: bytes, header: bytes.subarray(0, 32) }]);
      await settle(topic);
      const bounds = await other.reader.bounds(topic);
      const range = bounds.get(0)!;
      const batches: LogBatch[] = [];
      for await (const batch of other.reader.read(topic, 0, range.earliest, range.end)) batches.push(batch);
      const seen = batches.flatMap(seenIn);
      expect(seen.slice(0, 4).map(({ key, value, header }) => [key, value, header])).toEqual([
        ['a', '1', 'h:1'],
        [null, '2', 'h:2'],
        ['b', null, 'h:null'],
        ['', '', null],
      ]);
      const last = batches.at(-1)!;
      expect(last.keys.at(-1)?.equals(bytes)).toBe(true);
      expect(last.values.at(-1)?.equals(bytes)).toBe(true);
      expect(last.headers.at(-1)?.equals(bytes.subarray(0, 32))).toBe(true);
      expect(Math.abs((last.timestampsMs.at(-1) ?? 0) - Date.now())).toBeLessThan(600_000);
      await writer.close();
    });

    test('gives next offsets that a reader can stop at, control records built from them included', async () => {
      const data = await fresh({ partitions: 3 });
      const marks = await fresh();
      const writer = await log.writer(identity());
      const records = Array.from({ length: 30 }, (_, i) => record(data, `k${i}`, `v${i}`));
      let told: ReadonlyMap<number, LogOffset> | undefined;
      const next = await writer.append(records, (offsets) => {
        told = new Map(offsets.get(data));
        return [record(marks, 'mark', JSON.stringify([...(offsets.get(data) ?? [])].map(([p, o]) => [p, String(o)])))];
      });
      expect(told).toEqual(next.get(data));
      expect([...next.keys()].toSorted()).toEqual([data, marks].toSorted());
      let found = 0;
      for (const [partition, end] of next.get(data)!) {
        const seen = await readAll(other.reader, data, partition, offset(0), end);
        expect(seen.length).toBeGreaterThan(0);
        found += seen.length;
      }
      expect(found).toBe(30);
      const again = await writer.append([record(data, 'k1', 'later')]);
      const [partition, end] = [...again.get(data)!][0]!;
      const from = next.get(data)!.get(partition)!;
      expect((await readAll(other.reader, data, partition, from, end)).map((seen) => seen.value)).toEqual(['later']);
      await writer.close();
    });

    test('keeps a key in one partition, and an explicit partition where it says', async () => {
      const topic = await fresh({ partitions: 4 });
      const writer = await log.writer(identity());
      await writer.append([
        ...Array.from({ length: 40 }, (_, i) => record(topic, `k${i % 8}`, `${i}`)),
        ...Array.from({ length: 4 }, (_, partition) => record(topic, null, 'truncate', partition)),
      ]);
      const home = new Map<string, number>();
      for (let partition = 0; partition < 4; partition++) {
        const seen = await readAll(other.reader, topic, partition);
        expect(seen.at(-1)?.value).toBe('truncate');
        for (const { key } of seen) {
          if (key === null) continue;
          expect(home.get(key) ?? partition).toBe(partition);
          home.set(key, partition);
        }
      }
      expect(home.size).toBe(8);
      await writer.close();
    });

    test('is all or nothing over several topics when an append fails', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      await writer.append([record(topic, 'a', 'kept')]);
      expect(await codeOf(writer.append([record(topic, 'a', 'lost'), record(`${prefix}.absent`, 'a', 'x')]))).toBe(
        'LOG_TOPIC_MISSING',
      );
      const broken = writer.append([record(topic, 'a', 'lost')], () => {
        throw new RangeError('no mark');
      });
      await expect(broken).rejects.toThrow('no mark');
      await writer.append([record(topic, 'a', 'after')]);
      expect((await readAll(other.reader, topic)).map((seen) => seen.value)).toEqual(['kept', 'after']);
      await writer.close();
    });

    test('takes appends one after the other although they are called at once', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      await Promise.all(Array.from({ length: 12 }, (_, i) => writer.append([record(topic, 'k', `${i}`)])));
      const values = (await readAll(other.reader, topic)).map((seen) => seen.value);
      expect(values).toEqual(Array.from({ length: 12 }, (_, i) => `${i}`));
      await writer.close();
    });

    test('fences a writer when another takes its identity over, and shows nothing of what it then writes', async () => {
      const topic = await fresh();
      const who = identity();
      const first = await log.writer(who);
      await first.append([record(topic, 'k', 'first')]);
      const second = await other.writer(who);
      expect(await codeOf(first.append([record(topic, 'k', 'zombie')]))).toBe('LOG_FENCED');
      await second.append([record(topic, 'k', 'second')]);
      expect(await codeOf(first.append([record(topic, 'k', 'zombie')]))).toBe('LOG_FENCED');
      expect((await readAll(log.reader, topic)).map((seen) => seen.value)).toEqual(['first', 'second']);
      await first.close();
      await second.close();
    });

    test('lets writers of different identities write side by side', async () => {
      const topic = await fresh();
      const a = await log.writer(identity());
      const b = await other.writer(identity());
      await Promise.all(
        Array.from({ length: 10 }, (_, i) => [
          a.append([record(topic, 'a', `${i}`)]),
          b.append([record(topic, 'b', `${i}`)]),
        ]).flat(),
      );
      const seen = await readAll(other.reader, topic);
      const expected = Array.from({ length: 10 }, (_, i) => `${i}`);
      expect(seen.filter((one) => one.key === 'a').map((one) => one.value)).toEqual(expected);
      expect(seen.filter((one) => one.key === 'b').map((one) => one.value)).toEqual(expected);
      await a.close();
      await b.close();
    });

    test('reads exact ranges, in batches of bounded size', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      const value = 'x'.repeat(1000);
      for (let i = 0; i < 4; i++) {
        await writer.append(Array.from({ length: 250 }, (_, j) => record(topic, `${i * 250 + j}`, value)));
      }
      const all = await readAll(other.reader, topic);
      expect(all.map((seen) => seen.key)).toEqual(Array.from({ length: 1000 }, (_, i) => `${i}`));
      const from = offset(all[333]!.offset);
      const to = offset(all[777]!.offset);
      const keys: (string | null)[] = [];
      let batches = 0;
      for await (const batch of other.reader.read(topic, 0, from, to, { batchBytesMax: 50_000 })) {
        batches++;
        expect(batch.bytes).toBeLessThan(2_500_000);
        keys.push(...seenIn(batch).map((seen) => seen.key));
        expect(batch.nextOffset <= to).toBe(true);
      }
      expect(keys).toEqual(Array.from({ length: 777 - 333 }, (_, i) => `${333 + i}`));
      expect(batches).toBeGreaterThan(0);
      expect(await readAll(other.reader, topic, 0, from, from)).toEqual([]);
      await writer.close();
    });

    test('follows a partition across appends of another process until the signal', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      await writer.append([record(topic, 'k', '0'), record(topic, 'k', '1')]);
      const stop = new AbortController();
      const values: (string | null)[] = [];
      const following = (async () => {
        const from = offset((await readAll(other.reader, topic))[1]!.offset);
        for await (const batch of other.reader.follow(topic, 0, from, { signal: stop.signal })) {
          values.push(...seenIn(batch).map((seen) => seen.value));
        }
      })();
      await until('the first', () => values.length === 1);
      for (let i = 2; i < 6; i++) await writer.append([record(topic, 'k', `${i}`)]);
      await until('the rest', () => values.length === 5);
      stop.abort();
      await following;
      expect(values).toEqual(['1', '2', '3', '4', '5']);
      await writer.close();
    });

    test('an abort ends a range read with an error, never as if it were complete', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      for (let i = 0; i < 3; i++) await writer.append([record(topic, 'k', 'x'.repeat(2000))]);
      await settle(topic);
      const { earliest, end } = (await other.reader.bounds(topic)).get(0)!;
      const stop = new AbortController();
      const read = async (): Promise<void> => {
        const batches = other.reader.read(topic, 0, earliest, end, { batchBytesMax: 1000, signal: stop.signal });
        for await (const batch of batches) {
          expect(batch.offsets.length).toBeGreaterThan(0);
          stop.abort(new Error('stopped'));
        }
      };
      await expect(read()).rejects.toThrow('stopped');
      await writer.close();
    });

    test('refuses ranges that it does not hold, and names them', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      for (let i = 0; i < 10; i++) await writer.append([record(topic, 'k', `${i}`)]);
      const all = await readAll(other.reader, topic);
      const cut = offset(all[4]!.offset);
      await harness.expire(log, topic, 0, cut);
      await until('retention', async () => (await other.reader.bounds(topic)).get(0)!.earliest === cut);
      await settle(topic);
      const { earliest, end } = (await other.reader.bounds(topic)).get(0)!;
      expect(await codeOf(readAll(other.reader, topic, 0, offset(0), end))).toBe('LOG_OFFSET_OUT_OF_RANGE');
      expect(await codeOf(readAll(other.reader, topic, 0, offset(end + 1000n), offset(end + 1001n)))).toBe(
        'LOG_OFFSET_OUT_OF_RANGE',
      );
      expect((await readAll(other.reader, topic, 0, earliest, end)).map((seen) => seen.value)).toEqual([
        '4',
        '5',
        '6',
        '7',
        '8',
        '9',
      ]);
      await writer.close();
    });

    test('finds offsets by time', async () => {
      const topic = await fresh({ partitions: 2 });
      const writer = await log.writer(identity());
      await writer.append([record(topic, null, 'old', 0), record(topic, null, 'old', 0)]);
      const between = Date.now() + 5;
      await until('the clock', () => Date.now() > between + 5);
      await writer.append([record(topic, null, 'new', 0)]);
      const all = await readAll(other.reader, topic, 0);
      expect((await other.reader.offsetsAt(topic, 0)).get(0)).toBe(all[0]!.offset);
      expect((await other.reader.offsetsAt(topic, between)).get(0)).toBe(all[2]!.offset);
      const bounds = await other.reader.bounds(topic);
      const late = await other.reader.offsetsAt(topic, Date.now() + 3_600_000);
      expect(late.get(0)).toBe(bounds.get(0)?.end);
      expect(late.get(1)).toBe(bounds.get(1)?.end);
      await writer.close();
    });

    test('carries large values, and refuses those above its limit', async () => {
      const topic = await fresh();
      const writer = await log.writer(identity());
      const large = randomBytes(writer.recordBytesMax - 1000);
      await writer.append([{ topic, key: null, value: large, header: null }, record(topic, 'k', 'small')]);
      await settle(topic);
      const { earliest, end } = (await other.reader.bounds(topic)).get(0)!;
      const values: (Buffer | null)[] = [];
      for await (const batch of other.reader.read(topic, 0, earliest, end)) values.push(...batch.values);
      expect(values[0]?.equals(large)).toBe(true);
      expect(values[1]?.toString()).toBe('small');
      const larger = { topic, key: null, value: Buffer.alloc(writer.recordBytesMax + 1), header: null };
      expect(await codeOf(writer.append([larger]))).toBe('LOG_RECORD_TOO_LARGE');
      await writer.append([record(topic, 'k', 'after')]);
      await writer.close();
    });

    test('keeps the last record of each key of a compacted topic', async () => {
      const topic = await fresh({ compacted: true });
      const writer = await log.writer(identity());
      for (let i = 0; i < 5; i++)
        await writer.append([record(topic, `k${i % 2}`, `${i}`), record(topic, 'only', `o${i}`)]);
      const last = new Map((await readAll(other.reader, topic)).map((seen) => [seen.key, seen.value]));
      expect([...last].toSorted(([a], [b]) => String(a).localeCompare(String(b)))).toEqual([
        ['k0', '4'],
        ['k1', '3'],
        ['only', 'o4'],
      ]);
      await writer.close();
    });

    test('gives a topic that was made again under its name another id', async () => {
      const topic = await fresh({ partitions: 3 });
      const idOf = async (): Promise<string | null | undefined> => (await other.admin.topicIds([topic])).get(topic);
      const first = await idOf();
      expect(first).toMatch(/./);
      expect((await log.admin.topicIds([topic, `${topic}.none`, `${topic}.no`])).get(topic)).toBe(first);
      expect((await log.admin.topicIds([`${topic}.none`])).size).toBe(0);
      await other.admin.deleteTopics([topic]);
      await until('deletion', async () => (await idOf()) === undefined);
      await until('creation', async () => {
        await other.admin.ensureTopics({ [topic]: settings() });
        return (await idOf()) !== undefined;
      });
      expect(await idOf()).not.toBe(first);
    });

    test('lists, creates and deletes topics, and knows itself', async () => {
      const topic = await fresh({ partitions: 2 });
      await other.admin.ensureTopics({ [topic]: settings({ partitions: 5 }) });
      expect((await other.reader.bounds(topic)).size).toBe(2);
      expect(await other.admin.topics()).toContain(topic);
      const id = await log.admin.logId();
      expect(id).not.toBe('');
      expect(await other.admin.logId()).toBe(id);
      const writer = await log.writer(identity());
      await writer.append([record(topic, 'k', 'v')]);
      await other.admin.deleteTopics([topic]);
      await until('deletion', async () => !(await other.admin.topics()).includes(topic));
      expect(await codeOf(other.reader.bounds(topic))).toBe('LOG_TOPIC_MISSING');
      await writer.close();
    });
  });
}
