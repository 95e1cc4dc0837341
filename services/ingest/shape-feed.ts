/** Table shapes, and which tables were let go, from the compacted topic `<name>.__reader`, read on as it grows. */
import { READER_STATE_FORMAT } from '../log/event.ts';
import type { TableShape } from '../log/event.ts';
import { LogError } from '../log/log.ts';
import type { LogReader, PartitionBounds } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { readerTopic } from '../log/topics.ts';
import { StreamError } from '../stream/stream-error.ts';

export interface ShapeFeed {
  /** Reads what was added since the last call. Record keys of shapes are `["shape", version]`. */
  refresh(): Promise<void>;
  byVersion(version: number): TableShape | null;
  /** The shape in force of each table, in the order in which tables first appeared. */
  tables(): readonly TableShape[];
  /** Those of them that the reader still follows. */
  followed(): readonly TableShape[];
  latest(schema: string, table: string): TableShape | null;
}

interface Taken {
  readonly latest: Map<string, TableShape>;
  readonly letGo: Set<string>;
}

export function createShapeFeed(reader: LogReader, name: string): ShapeFeed {
  const topic = readerTopic(name);
  const byVersion = new Map<number, TableShape>();
  let latest = new Map<string, TableShape>();
  let letGo = new Set<string>();
  let next = 0n as LogOffset;
  /** One look at a time: many ask, and an answer that is older than what was read meanwhile would look like a topic made again. */
  let turn: Promise<void> = Promise.resolve();

  function take(key: Buffer | null, value: Buffer | null, into: Taken): void {
    if (key === null || value === null) return;
    const kind = key.toString('utf8');
    if (kind.startsWith('["table"')) takeState(value, into.letGo);
    else if (kind.startsWith('["shape"')) takeShape(value, into.latest);
  }

  function takeState(value: Buffer, gone: Set<string>): void {
    const { table } = JSON.parse(value.toString('utf8')) as {
      table?: { readonly schema: string; readonly table: string; readonly phase: string };
    };
    if (table === undefined) return;
    const name = `${table.schema}\0${table.table}`;
    if (table.phase === 'removed') gone.add(name);
    else gone.delete(name);
  }

  function takeShape(value: Buffer, newest: Map<string, TableShape>): void {
    const body = JSON.parse(value.toString('utf8')) as { formatVersion?: number; shape?: TableShape };
    if ((body.formatVersion ?? READER_STATE_FORMAT) > READER_STATE_FORMAT)
      throw new StreamError(
        'FORMAT_NEWER',
        `topic ${topic}: a shape has format ${body.formatVersion}`,
        'upgrade the stream before the reader',
      );
    const { shape } = body;
    if (shape === undefined) return;
    byVersion.set(shape.version, shape);
    const name = `${shape.schema}\0${shape.table}`;
    // In the log's order: a table may come back to a shape that it had.
    newest.set(name, shape);
  }

  async function read(): Promise<void> {
    const bounds = await boundsOf(reader, topic);
    if (bounds === null) return;
    // Shorter than what was read: the topic was made again, and its versions begin anew. Until that is read, what was known holds.
    const again = bounds.end < next;
    if (again) next = 0n as LogOffset;
    if (bounds.end <= next) return;
    const into = again ? { latest: new Map<string, TableShape>(), letGo: new Set<string>() } : { latest, letGo };
    const from = next > bounds.earliest ? next : bounds.earliest;
    for await (const batch of reader.read(topic, 0, from, bounds.end))
      batch.keys.forEach((key, i) => take(key, batch.values[i] ?? null, into));
    ({ latest, letGo } = into);
    next = bounds.end;
  }

  return {
    refresh() {
      const mine = turn.then(read);
      turn = mine.catch(() => undefined);
      return mine;
    },
    byVersion: (version) => byVersion.get(version) ?? null,
    tables: () => [...latest.values()],
    followed: () => [...latest].filter(([name]) => !letGo.has(name)).map(([, shape]) => shape),
    latest: (schema, table) => latest.get(`${schema}\0${table}`) ?? null,
  };
}

/** Null before the reader's first start. */
async function boundsOf(reader: LogReader, topic: string): Promise<PartitionBounds | null> {
  try {
    return (await reader.bounds(topic)).get(0) ?? null;
  } catch (error) {
    if (error instanceof LogError && error.code === 'LOG_TOPIC_MISSING') return null;
    throw error;
  }
}
