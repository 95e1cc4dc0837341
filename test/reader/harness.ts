/** A reader on an embedded log in a temporary folder, and the tables that its log adds up to. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import type { Mark } from '../../services/log/event.ts';
import type { EventLog } from '../../services/log/log.ts';
import { formatLsn, parseLsn } from '../../services/log/position.ts';
import { dataTopic, progressTopic } from '../../services/log/topics.ts';
import { parseConnection, type ConnectionParts } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import { startReader } from '../../services/reader/reader.ts';
import type { ReaderHandle, ReaderOptions } from '../../services/reader/reader-options.ts';
import type { PostgresSource } from '../../services/reader/source.ts';
import { decodeMark } from '../../services/stream/sources/mark-feed.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

export const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

export interface LogEvent {
  readonly offset: bigint;
  readonly partition: number;
  readonly key: string | null;
  readonly op: string;
  readonly lsn: bigint;
  readonly ord: number;
  readonly flags: number;
  readonly value: Record<string, unknown>;
}

export type Row = Record<string, unknown>;

export interface Harness {
  readonly log: EventLog;
  /** What a reader gets unless it is started with another. */
  readonly source: PostgresSource;
  readonly directory: string;
  readonly name: string;
  start(options?: Partial<ReaderOptions>): Promise<ReaderHandle>;
  events(table: string, schema?: string): Promise<LogEvent[]>;
  marks(): Promise<Mark[]>;
  /** Rows by record key, as a consumer that applies the log in order has them. Throws where a base is missing. */
  rows(table: string, schema?: string): Promise<Map<string, Row>>;
  /** Waits until everything that is committed in the database now is durable in the log. */
  caughtUp(reader: ReaderHandle): Promise<void>;
  snapshotsDone(reader: ReaderHandle): Promise<void>;
  close(): Promise<void>;
}

export async function openHarness(
  db: TestDatabase,
  name = 'p',
  partitions = 2,
  login: ConnectionParts = {},
): Promise<Harness> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-reader-'));
  const log = await openEmbeddedLog({ directory: join(directory, 'log') });
  const source = await openPostgresSource(() => parseConnection(db.url, login));
  let run = 0;
  const readers: ReaderHandle[] = [];

  const events = async (table: string, schema = 'public'): Promise<LogEvent[]> => {
    const out: LogEvent[] = [];
    const topic = dataTopic(name, schema, table);
    for (const [partition, bounds] of await log.reader.bounds(topic)) {
      for await (const batch of log.reader.read(topic, partition, bounds.earliest, bounds.end)) {
        for (let i = 0; i < batch.keys.length; i++) {
          const header = batch.headers[i] as Buffer;
          out.push({
            offset: batch.offsets[i] ?? 0n,
            partition,
            key: batch.keys[i]?.toString('utf8') ?? null,
            op: String.fromCharCode(header.readUInt8(1)),
            flags: header.readUInt8(2),
            lsn: header.readBigUInt64BE(8),
            ord: header.readUInt32BE(16),
            value: JSON.parse((batch.values[i] as Buffer).toString('utf8')) as Record<string, unknown>,
          });
        }
      }
    }
    return out;
  };

  const harness: Harness = {
    log,
    source,
    directory,
    name,
    async start(options = {}) {
      run++;
      const reader = await startReader({
        name,
        source,
        log,
        slot: `s_${db.database}_${name}`,
        publication: `pub_${name}`,
        tables: ['public.*'],
        newTables: 'backfill',
        logKind: 'embedded',
        topic: { partitions, replicationFactor: 1, retentionMs: -1, compacted: false },
        snapshotParallel: 2,
        snapshotChunkRows: 500,
        putLarge: null,
        committedLsn: null,
        logger: QUIET,
        clock: Date.now,
        runId: `run${run}-${Math.random().toString(36).slice(2)}`,
        failpoint: () => undefined,
        ...options,
        limits: { heartbeatMs: 500, idleMarkMs: 500, standbyPollMs: 100, flushIntervalMs: 20, ...options.limits },
      });
      readers.push(reader);
      return reader;
    },
    events,
    async marks() {
      const out: Mark[] = [];
      for (const [partition, bounds] of await log.reader.bounds(progressTopic(name))) {
        for await (const batch of log.reader.read(progressTopic(name), partition, bounds.earliest, bounds.end)) {
          for (const value of batch.values) if (value !== null) out.push(decodeMark(value, name));
        }
      }
      return out;
    },
    async rows(table, schema) {
      const folded = foldEvents(await events(table, schema));
      if (folded.homeless.length > 0) throw new Error(`no base for ${folded.homeless.slice(0, 3).join(', ')}`);
      return folded.rows;
    },
    async caughtUp(reader) {
      const rows = await db.query('select pg_current_wal_insert_lsn() as lsn');
      const target = parseLsn(rows[0]?.['lsn'] ?? '0/0');
      await db.query("select pg_logical_emit_message(true, 'test', 'x')");
      await waitFor(
        `the log to hold everything below ${formatLsn(target)}`,
        () => {
          const status = reader.status();
          if (status.phase === 'stopped') throw new Error(JSON.stringify(status.stopped));
          return status.durableLsn >= target;
        },
        { everyMs: 20 },
      );
    },
    async snapshotsDone(reader) {
      await waitFor(
        'all snapshots',
        () =>
          reader.status().phase === 'streaming' &&
          reader.status().tables.every((table) => table.phase !== 'snapshotting'),
        { everyMs: 20 },
      );
      // The last chunk is booked when it is written; durable is what follows.
      await harness.caughtUp(reader);
    },
    async close() {
      for (const reader of readers) await reader.stop();
      await log.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return harness;
}

/**
 * The rows that the events add up to. First what DESIGN invariant 3 promises is checked: within a partition each key's events
 * rise in position, and no position comes twice. Then they are applied in the order of positions. Homeless are the keys with
 * an unchanged column whose base never came (a row that moved between two chunks): they are fetched by their keys.
 */
export function foldEvents(events: readonly LogEvent[]): { rows: Map<string, Row>; homeless: string[] } {
  const newest = new Map<string, LogEvent>();
  for (const event of events) {
    const held = newest.get(event.key ?? '');
    if (
      event.key !== null &&
      held !== undefined &&
      !(event.lsn > held.lsn || (event.lsn === held.lsn && event.ord > held.ord))
    ) {
      throw new Error(
        `${event.key}: ${formatLsn(event.lsn)}/${event.ord} stands behind ${formatLsn(held.lsn)}/${held.ord}`,
      );
    }
    if (event.key !== null) newest.set(event.key, event);
  }
  const ordered = [...events].sort((a, b) => (a.lsn === b.lsn ? a.ord - b.ord : a.lsn < b.lsn ? -1 : 1));
  const rows = new Map<string, Row>();
  const waiting = new Map<string, Set<string>>();
  const left = new Map<string, { row: Row; waiting: Set<string> }>();
  for (const { key, op, value, flags } of ordered) {
    if (op === 't') {
      rows.clear();
      waiting.clear();
      continue;
    }
    if (key === null) throw new Error('an event without a key');
    const old = rows.get(key);
    if (op === 'd') {
      if (old !== undefined) left.set(key, { row: old, waiting: waiting.get(key) ?? new Set() });
      rows.delete(key);
      waiting.delete(key);
      continue;
    }
    const after = { ...(value['after'] as Row) };
    if ((flags & 2) === 2) {
      const missing = waiting.get(key);
      if (old === undefined || missing === undefined) continue;
      for (const column of missing) {
        if (!(column in after)) continue;
        old[column] = after[column];
        missing.delete(column);
      }
      continue;
    }
    const other = value['otherKey'];
    const from =
      other === undefined
        ? { row: old, waiting: waiting.get(key) ?? new Set<string>() }
        : left.get(JSON.stringify(other));
    const missing = new Set<string>();
    for (const column of (value['unchanged'] as string[] | undefined) ?? []) {
      if (from?.row !== undefined && !from.waiting.has(column)) after[column] = from.row[column];
      else missing.add(column);
    }
    rows.set(key, after);
    waiting.set(key, missing);
  }
  return { rows, homeless: [...waiting].filter(([, columns]) => columns.size > 0).map(([key]) => key) };
}

/** Text of a wire cell as PostgreSQL prints the value. */
export function textOf(cell: unknown): string | null {
  if (cell === null || cell === undefined) return null;
  if (typeof cell === 'boolean') return cell ? 't' : 'f';
  if (typeof cell === 'string') return cell;
  return JSON.stringify(cell);
}

/** The table's rows in the database and in the log, as texts in one order: to be compared with toEqual. */
export async function bothSides(
  db: TestDatabase,
  harness: Harness,
  table: string,
  columns: readonly string[],
): Promise<{ source: string[]; log: string[] }> {
  const list = columns.map((column) => `"${column}"`).join(', ');
  const source = (await db.query(`select ${list} from "${table}"`)).map((row) =>
    JSON.stringify(columns.map((column) => row[column])),
  );
  const log = [...(await harness.rows(table)).values()].map((row) =>
    JSON.stringify(columns.map((column) => textOf(row[column]))),
  );
  return { source: source.sort(), log: log.sort() };
}
