/**
 * What the reader keeps in the compacted topic `<name>.__reader`, written in the same log transaction as the events it speaks
 * of: its position, the history of shapes, and each table's snapshot progress. Everything needed to go on, on any machine.
 * LSNs stand as text (`16/B374D848`), every record carries `formatVersion`.
 */
import { READER_STATE_FORMAT, type TableShape } from '../log/event.ts';
import type { LogReader, OutgoingRecord } from '../log/log.ts';
import { formatLsn, parseLsn, type Lsn } from '../log/position.ts';
import { readerTopic } from '../log/topics.ts';
import type { SourceAttribute } from './catalog.ts';
import { ReaderError } from './reader-error.ts';

/** What must be the same for positions to go on: the source's WAL and the log. */
export interface SourceIdentity {
  readonly systemIdentifier: string;
  readonly timeline: number;
  readonly database: string;
  readonly slot: string;
  /** Identity of the log that this was written to. */
  readonly logId: string;
  /** The publication as it was defined (`publicationRevision`); absent where no reader has noted it yet. */
  readonly publication?: string;
}

export interface ReaderPosition extends SourceIdentity {
  readonly epoch: number;
  /** Last event in the log. */
  readonly lsn: Lsn;
  readonly ord: number;
  readonly open: boolean;
  /** Highest position that may have been confirmed to PostgreSQL. */
  readonly confirmLsn: Lsn;
  /** Sequence of the last mark. */
  readonly sequence: number;
  readonly bytes: bigint;
  readonly sourceTimeMicros: bigint;
  readonly unseenXids: readonly number[];
}

/** A half-open range of tuple identifiers of one heap: block * 65536 + offset; `to` null = open-ended. */
export interface TidRange {
  readonly from: number;
  readonly to: number | null;
}

export type TablePhase = 'snapshotting' | 'streaming' | 'paused' | 'stopped' | 'removed';

export interface HeapProgress {
  readonly schema: string;
  readonly table: string;
  readonly relfilenode: number;
  /** Ranges whose rows are in the log, merged and in order. */
  readonly done: readonly TidRange[];
}

export interface TableState {
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  readonly phase: TablePhase;
  /** Why it is stopped: a ContinuityState's name and what it saw; null otherwise. */
  readonly stopped: { readonly state: string; readonly detail: string } | null;
  /** Rises with every snapshot of the table. */
  readonly snapshot: number;
  /** Snapshot may begin when every transaction below this 64-bit xid has ended; null = at once. */
  readonly waitForXid: string | null;
  readonly heaps: readonly HeapProgress[];
  /** The snapshot begins with a TRUNCATE event, so that rows which the source no longer has go, too. */
  readonly clearFirst?: boolean;
  /** Rows put into the log by the current snapshot. */
  readonly rows: number;
  readonly startedAtMs: number;
  /** pg_inherits as last seen: leaf partitions. */
  readonly partitions: readonly string[];
  /** Columns and files as last seen, to notice DDL that sends no row events. */
  readonly seen: TableSeen | null;
  /** What of its rows and columns was published when its snapshot was planned; absent where no reader has noted it yet. */
  readonly published?: PublishedScope;
}

export interface PublishedScope {
  readonly rowFilter: string | null;
  readonly columnList: readonly string[] | null;
  /** Absent where it was noted before readers looked at them. */
  readonly entries?: readonly string[];
}

export interface TableSeen {
  readonly attributes: readonly SourceAttribute[];
  /** Heap → relfilenode. */
  readonly files: Readonly<Record<string, number>>;
}

export interface SavedReader {
  readonly position: ReaderPosition | null;
  /** In the order in which they were last noted. */
  readonly shapes: readonly TableShape[];
  readonly tables: readonly TableState[];
  /** Partitions of each data topic at its last records. */
  readonly partitions: ReadonlyMap<string, number>;
}

const key = (...parts: readonly (string | number)[]): Buffer => Buffer.from(JSON.stringify(parts));

function record(name: string, recordKey: Buffer, value: object): OutgoingRecord {
  const text = JSON.stringify({ formatVersion: READER_STATE_FORMAT, ...value });
  return { topic: readerTopic(name), key: recordKey, value: Buffer.from(text), header: null, partition: 0 };
}

export function positionRecord(name: string, position: ReaderPosition): OutgoingRecord {
  return record(name, key('position'), {
    ...position,
    lsn: formatLsn(position.lsn),
    confirmLsn: formatLsn(position.confirmLsn),
    bytes: String(position.bytes),
    sourceTimeMicros: String(position.sourceTimeMicros),
  });
}

export function shapeRecord(name: string, shape: TableShape): OutgoingRecord {
  return record(name, key('shape', shape.version), { shape });
}

export function tableRecord(name: string, table: TableState): OutgoingRecord {
  return record(name, key('table', table.schema, table.table), { table });
}

export function topicRecord(name: string, topic: string, partitions: number): OutgoingRecord {
  return record(name, key('topic', topic), { topic, partitions });
}

/** Reads the whole topic; the last record of each key counts. @throws ReaderError STATE_FORMAT_NEWER, STATE_CORRUPT */
export async function loadReaderState(reader: LogReader, name: string): Promise<SavedReader> {
  const topic = readerTopic(name);
  const bounds = (await reader.bounds(topic)).get(0);
  const latest = new Map<string, Buffer>();
  if (bounds !== undefined && bounds.end > bounds.earliest) {
    for await (const batch of reader.read(topic, 0, bounds.earliest, bounds.end)) {
      for (let i = 0; i < batch.keys.length; i++) {
        const recordKey = batch.keys[i]?.toString('utf8');
        const value = batch.values[i];
        if (recordKey === undefined) continue;
        // A shape that was noted again is the newest one.
        latest.delete(recordKey);
        if (value != null) latest.set(recordKey, value);
      }
    }
  }
  let position: ReaderPosition | null = null;
  const shapes: TableShape[] = [];
  const tables: TableState[] = [];
  const partitions = new Map<string, number>();
  for (const [recordKey, value] of latest) {
    const body = parseBody(topic, recordKey, value);
    const kind = (JSON.parse(recordKey) as unknown[])[0];
    if (kind === 'position') position = positionOf(body as unknown as PositionText);
    else if (kind === 'shape') shapes.push((body as unknown as { shape: TableShape }).shape);
    else if (kind === 'table') tables.push((body as unknown as { table: TableState }).table);
    else if (kind === 'topic') partitions.set(String(body['topic']), Number(body['partitions']));
  }
  return { position, shapes, tables, partitions };
}

type PositionText = Omit<ReaderPosition, 'lsn' | 'confirmLsn' | 'bytes' | 'sourceTimeMicros'> & {
  readonly lsn: string;
  readonly confirmLsn: string;
  readonly bytes: string;
  readonly sourceTimeMicros: string;
};

function positionOf(text: PositionText): ReaderPosition {
  return {
    ...text,
    lsn: parseLsn(text.lsn),
    confirmLsn: parseLsn(text.confirmLsn),
    bytes: BigInt(text.bytes),
    sourceTimeMicros: BigInt(text.sourceTimeMicros),
  };
}

function parseBody(topic: string, recordKey: string, value: Buffer): Record<string, unknown> {
  let body: Record<string, unknown>;
  try {
    body = JSON.parse(value.toString('utf8')) as Record<string, unknown>;
  } catch (cause) {
    throw new ReaderError('STATE_CORRUPT', `topic ${topic}: the record ${recordKey} is not JSON`, { cause });
  }
  const version = body['formatVersion'];
  if (typeof version !== 'number' || version > READER_STATE_FORMAT) {
    throw new ReaderError(
      'STATE_FORMAT_NEWER',
      `topic ${topic}: the record ${recordKey} has format ${String(version)}; this Sluice reads up to ${READER_STATE_FORMAT}`,
      { remedy: 'run the newer Sluice that wrote it' },
    );
  }
  return body;
}
