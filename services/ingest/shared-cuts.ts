/**
 * `consistent.json` where several workers share the tables. Every worker ends a batch of each of its tables at the same
 * barriers (mark-timeline.ts finds them in the marks), and reports the versions that its tables had there to the topic
 * `<name>.__workers`; the worker that writes `consistent.json` puts the reports together. A barrier that a table passed
 * without stopping makes no cut, the next one does.
 */
import type { EventLog, LogWriter } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { workersTopic } from '../log/topics.ts';
import type { MarkTimeline, TimelineMark } from '../stream/sources/mark-timeline.ts';
import type { Clock } from '../stream/triggers.ts';
import type { BarrierTable } from './barrier-keeper.ts';
import type { ConsistentCut } from './consistent.ts';

export const REPORT_FORMAT = 1;
/** Barriers that are waited for; a second each. */
const BARRIERS_KEPT = 120;
const RETRY_MS = 500;
const TOPIC = { partitions: 1, retentionMs: 3600_000, compacted: false };

export interface SharedCutsOptions {
  readonly name: string;
  readonly worker: string;
  readonly log: EventLog;
  readonly replicationFactor: number;
  readonly clock: Clock;
  readonly timeline: MarkTimeline;
  /** ms; barriers come no closer together than batches do. */
  readonly intervalMs: number;
  /** All tables of the pipeline (`schema.table`), whoever has them. */
  readonly tables: () => Iterable<string>;
  readonly onCut: (cut: ConsistentCut) => void;
  readonly onFailure: (error: unknown) => void;
}

/** What a worker says of its tables at a barrier. */
export interface BarrierReport {
  readonly barrier: number;
  /** Version of each table at the barrier; null = it has none yet. */
  readonly versions: ReadonlyMap<string, bigint | null>;
  /** Tables that stand still: not part of the cut. */
  readonly left: readonly string[];
}

export interface SharedCuts {
  barrier(sequence: number): number | null;
  marked(entry: TimelineMark): void;
  /** Looks where this worker's tables stand, and reports each barrier that all have come to. */
  look(tables: readonly BarrierTable[]): void;
  /** Begins or ends to put the reports of all workers together. */
  gather(on: boolean): void;
  close(): Promise<void>;
}

export function createSharedCuts(options: SharedCutsOptions): SharedCuts {
  const { name, log, clock, timeline } = options;
  const topic = workersTopic(name);
  const level = Math.max(0, Math.ceil(Math.log2(Math.max(1, options.intervalMs / 1000))));
  const marks = new Map<number, TimelineMark>();
  const reached = new Map<number, Map<string, bigint | null>>();
  const gathered = new Map<number, BarrierReport>();
  const stop = new AbortController();
  let reported = 0;
  let cutAt = 0;
  let writer: LogWriter | null = null;
  let sending: Promise<void> = Promise.resolve();
  let gathering: { readonly stop: AbortController; readonly done: Promise<void> } | null = null;

  async function send(report: BarrierReport): Promise<void> {
    try {
      if (writer === null) {
        await log.admin.ensureTopics({ [topic]: { ...TOPIC, replicationFactor: options.replicationFactor } });
        writer = await log.writer(`${name}.__workers.${options.worker}`);
      }
      await writer.append([{ topic, key: null, value: encodeReport(report), header: null, partition: 0 }]);
    } catch (error) {
      const failed = writer;
      writer = null;
      await failed?.close().catch(() => undefined);
      if (!stop.signal.aborted) options.onFailure(error);
    }
  }

  function look(tables: readonly BarrierTable[]): void {
    for (const { id, reached: at, version, active } of tables) {
      if (!active || !marks.has(at)) continue;
      const versions = reached.get(at) ?? new Map<string, bigint | null>();
      if (!versions.has(id)) reached.set(at, versions.set(id, version));
    }
    const left = tables.filter(({ active }) => !active).map(({ id }) => id);
    for (const [barrier, versions] of [...reached].toSorted(([a], [b]) => a - b)) {
      if (barrier <= reported || versions.size + left.length < tables.length) continue;
      if (!tables.every(({ id, active }) => !active || versions.has(id))) continue;
      reported = barrier;
      sending = sending.then(() => send({ barrier, versions, left }));
    }
    prune(reached, reported);
  }

  function take(report: BarrierReport): void {
    if (report.barrier <= cutAt) return;
    const standing = gathered.get(report.barrier);
    const all: BarrierReport = {
      barrier: report.barrier,
      versions: new Map([...(standing?.versions ?? []), ...report.versions]),
      left: [...new Set([...(standing?.left ?? []), ...report.left])],
    };
    gathered.set(report.barrier, all);
    tryCut(all);
  }

  function tryCut({ barrier, versions, left }: BarrierReport): void {
    const entry = marks.get(barrier);
    if (entry === undefined) return;
    for (const id of options.tables()) if (!versions.has(id) && !left.includes(id)) return;
    cutAt = barrier;
    prune(gathered, barrier);
    if (entry.mark.snapshotting.length > 0) return;
    const known = new Map<string, bigint>();
    for (const [id, version] of versions) if (version !== null && !left.includes(id)) known.set(id, version);
    options.onCut({ mark: entry.mark, progressOffset: entry.progressOffset, versions: known, left });
  }

  async function follow(signal: AbortSignal): Promise<void> {
    let next: LogOffset | null = null;
    while (!signal.aborted) {
      try {
        await log.admin.ensureTopics({ [topic]: { ...TOPIC, replicationFactor: options.replicationFactor } });
        next ??= (await log.reader.bounds(topic)).get(0)?.end ?? null;
        if (next === null) continue;
        for await (const batch of log.reader.follow(topic, 0, next, { signal })) {
          for (const value of batch.values) {
            const report = value === null ? null : decodeReport(value);
            if (report !== null) take(report);
          }
          next = batch.nextOffset;
        }
      } catch (error) {
        if (!signal.aborted) options.onFailure(error);
        next = null;
      }
      await clock.sleep(RETRY_MS, signal);
    }
  }

  return {
    barrier: (sequence) => timeline.nextBarrier(sequence, level)?.mark.sequence ?? null,
    marked(entry) {
      if (entry.barrier < 0) return;
      marks.set(entry.mark.sequence, entry);
      prune(marks, 0);
      const waiting = gathered.get(entry.mark.sequence);
      if (waiting !== undefined) tryCut(waiting);
    },
    look,
    gather(on) {
      if (on === (gathering !== null)) return;
      gathering?.stop.abort();
      if (!on) {
        gathering = null;
        return;
      }
      gathered.clear();
      const turn = new AbortController();
      gathering = { stop: turn, done: follow(AbortSignal.any([turn.signal, stop.signal])) };
    },
    async close() {
      stop.abort();
      await gathering?.done;
      await sending;
      await writer?.close();
    },
  };
}

/** Keeps the newest, and nothing up to `done`. */
function prune(map: Map<number, unknown>, done: number): void {
  for (const sequence of map.keys()) if (sequence <= done) map.delete(sequence);
  for (const sequence of [...map.keys()].toSorted((a, b) => a - b)) {
    if (map.size <= BARRIERS_KEPT) return;
    map.delete(sequence);
  }
}

export function encodeReport({ barrier, versions, left }: BarrierReport): Buffer {
  const texts = Object.fromEntries(
    [...versions].map(([id, version]) => [id, version === null ? null : String(version)]),
  );
  return Buffer.from(JSON.stringify({ formatVersion: REPORT_FORMAT, barrier, versions: texts, left }));
}

/** Null for what a newer worker wrote: without it there is no cut, and none is wrong. */
export function decodeReport(value: Buffer): BarrierReport | null {
  const body = JSON.parse(value.toString('utf8')) as {
    formatVersion?: number;
    barrier?: number;
    versions?: Record<string, string | null>;
    left?: string[];
  };
  if ((body.formatVersion ?? 0) > REPORT_FORMAT || typeof body.barrier !== 'number') return null;
  const versions = Object.entries(body.versions ?? {}).map(
    ([id, version]) => [id, version === null ? null : BigInt(version)] as const,
  );
  return { barrier: body.barrier, versions: new Map(versions), left: body.left ?? [] };
}
