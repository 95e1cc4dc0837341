/** Writes a log as the reader would: shapes, events and marks in one log transaction each. */
import type { EventLog, LogWriter, OutgoingRecord } from '../../services/log/log.ts';
import type { LogOffset, Lsn } from '../../services/log/position.ts';
import { lsn } from '../../services/log/position.ts';
import type { RowEvent } from '../../services/log/row-event.ts';
import { compileShapeEncoder, createEnvelopeEncoder } from '../../services/log/envelope-encode.ts';
import type { ShapeEncoder } from '../../services/log/envelope-encode.ts';
import type { Mark, TableShape } from '../../services/log/event.ts';
import { dataTopic, progressTopic, readerTopic } from '../../services/log/topics.ts';
import { formatLsn } from '../../services/log/position.ts';
import { rowEvent, tupleOf } from '../support/row-events.ts';
import type { CellText } from '../support/row-events.ts';

export interface FakeChange {
  readonly shape: TableShape;
  readonly op: RowEvent['op'];
  readonly after?: readonly CellText[];
  readonly before?: readonly CellText[];
  readonly otherKey?: readonly CellText[];
  readonly flags?: number;
  readonly ord?: number;
  /** Explicit partition: a truncate goes to every one. */
  readonly partition?: number;
}

export interface FakeReader {
  readonly topics: ReadonlyMap<string, TableShape>;
  addShape(shape: TableShape, partitions?: number): Promise<void>;
  /** One source transaction and its mark. */
  commit(changes: readonly FakeChange[], mark?: Partial<Mark>): Promise<Mark>;
  /** Any records, then a mark: for what no reader would write. */
  raw(records: readonly OutgoingRecord[]): Promise<Mark>;
  readonly lsn: bigint;
  close(): Promise<void>;
}

export async function createFakeReader(log: EventLog, name: string): Promise<FakeReader> {
  const settings = { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false };
  await log.admin.ensureTopics({
    [progressTopic(name)]: settings,
    [readerTopic(name)]: { ...settings, compacted: true },
  });
  const writer: LogWriter = await log.writer(`${name}.reader`);
  const logId = await log.admin.logId();
  const encoder = createEnvelopeEncoder();
  const encoders = new Map<number, ShapeEncoder>();
  const topics = new Map<string, TableShape>();
  let now = 0x1_0000_0000n;
  let sequence = 0;
  let bytes = 0n;

  async function append(records: readonly OutgoingRecord[], mark: Partial<Mark>): Promise<Mark> {
    for (const { value } of records) bytes += BigInt(value?.length ?? 0);
    let written: Mark | null = null;
    await writer.append(records, (next) => {
      const nextOffsets: Record<string, Record<number, LogOffset>> = {};
      for (const [topic, partitions] of next) nextOffsets[topic] = Object.fromEntries(partitions);
      written = {
        formatVersion: 1,
        sequence: ++sequence,
        epoch: 1,
        logId,
        lsn: lsn(now),
        ord: 0,
        confirmLsn: lsn(now),
        open: false,
        nextOffsets,
        full: false,
        bytes,
        snapshotting: [],
        sourceTimeMicros: 1_700_000_000_000_000n + BigInt(sequence) * 1000n,
        atMs: Date.now(),
        ...mark,
      };
      return [markRecord(name, written)];
    });
    if (written === null) throw new Error('no mark was written');
    return written;
  }

  return {
    topics,
    get lsn() {
      return now;
    },
    async addShape(shape, partitions = 1) {
      const topic = dataTopic(name, shape.schema, shape.table);
      topics.set(topic, shape);
      encoders.set(shape.version, compileShapeEncoder(shape, { name, database: 'shop' }));
      await log.admin.ensureTopics({ [topic]: { ...settings, partitions } });
      await writer.append([
        {
          topic: readerTopic(name),
          key: Buffer.from(JSON.stringify(['shape', shape.version])),
          value: Buffer.from(JSON.stringify({ formatVersion: 1, shape })),
          header: null,
          partition: 0,
        },
      ]);
    },
    async commit(changes, mark = {}) {
      now += 16n;
      const records = changes.map((change, index): OutgoingRecord => {
        const shapeEncoder = encoders.get(change.shape.version);
        if (shapeEncoder === undefined) throw new Error('addShape first');
        const record = encoder.encode(
          shapeEncoder,
          rowEvent({
            op: change.op,
            flags: change.flags ?? 0,
            epoch: mark.epoch ?? 1,
            lsn: (mark.lsn ?? now) as Lsn,
            ord: change.ord ?? index * 2,
            after: change.after === undefined ? null : tupleOf(change.after),
            before: change.before === undefined ? null : tupleOf(change.before),
            otherKey: change.otherKey === undefined ? null : tupleOf(change.otherKey),
          }),
        );
        const topic = dataTopic(name, change.shape.schema, change.shape.table);
        return {
          topic,
          key: record.key === null ? null : Buffer.from(record.key),
          value: Buffer.from(record.value),
          header: Buffer.from(record.header),
          ...(change.partition === undefined ? {} : { partition: change.partition }),
        };
      });
      return append(records, mark);
    },
    raw(records) {
      now += 16n;
      return append(records, {});
    },
    close: () => writer.close(),
  };
}

function markRecord(name: string, mark: Mark): OutgoingRecord {
  const text = JSON.stringify(
    { ...mark, lsn: formatLsn(mark.lsn), confirmLsn: formatLsn(mark.confirmLsn) },
    (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  );
  return { topic: progressTopic(name), key: Buffer.from('mark'), value: Buffer.from(text), header: null, partition: 0 };
}
