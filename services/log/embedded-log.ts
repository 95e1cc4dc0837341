/**
 * ADAPTER of the event log port on one machine's disk: nothing to install, durable on acknowledge, several processes.
 *
 *   <directory>/index.mdb   topics, partitions, chunk places, writer epochs (LMDB; embedded-index.ts)
 *   <directory>/segments/   the records (embedded-segments.ts, record-chunk.ts)
 *
 * This folder is data, not cache: losing it is a named state (the log's id changes, so marks say TOPIC_RESET).
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeFolder } from '../runtime/make-folder.ts';
import { LogError, type EventLog, type LogAdmin, type LogWriter } from './log.ts';
import {
  nextNumber,
  numberOf,
  openIndex,
  partitionState,
  putPartitionState,
  putTopic,
  refresh,
  removeTopic,
  topicNames,
  topicOf,
  write,
  type LogIndex,
} from './embedded-index.ts';
import { createEmbeddedReader, type AppendWatch } from './embedded-reader.ts';
import { deleteSegment, storageError } from './embedded-segments.ts';
import { dropChunks, trimPartition } from './embedded-retention.ts';
import { moveSurvivors } from './embedded-survivors.ts';
import { openEmbeddedWriter } from './embedded-writer.ts';

export interface EmbeddedLogOptions {
  readonly directory: string;
  /** Released records are kept while they are younger than their topic's retention and all kept bytes are below this. */
  readonly retentionBytes?: number;
  /** Largest record value; larger rows go by claim check. */
  readonly recordBytesMax?: number;
  readonly chunkBytes?: number;
  readonly segmentBytes?: number;
  /** How often another process's appends are looked for, ms. */
  readonly pollMs?: number;
  readonly clock?: () => number;
}

const MIB = 1024 * 1024;
const APPENDS = 'appends';

/** @throws LogError FORMAT_NEWER, CORRUPT, UNAVAILABLE, DISK_FULL */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<EventLog> {
  const { directory } = options;
  const clock = options.clock ?? Date.now;
  let index: LogIndex;
  try {
    makeFolder(join(directory, 'segments'));
    index = await openIndex(directory);
  } catch (cause) {
    throw await storageError(directory, 'it cannot be opened', cause);
  }
  const changes = watchAppends(index, options.pollMs ?? 20);
  /** Those that are open: a reader opens one at every attempt. */
  const writers = new Set<LogWriter>();
  const reader = createEmbeddedReader(index, { directory, changes });
  return {
    reader,
    admin: createAdmin(index, directory, clock, options.retentionBytes ?? 4096 * MIB),
    async writer(identity) {
      const writer: LogWriter = await openEmbeddedWriter(index, {
        directory,
        identity,
        clock,
        recordBytesMax: options.recordBytesMax ?? 8 * MIB,
        chunkBytes: options.chunkBytes ?? MIB,
        segmentBytes: options.segmentBytes ?? 64 * MIB,
        onAppend: changes.wake,
        onClosed: () => void writers.delete(writer),
      });
      writers.add(writer);
      return writer;
    },
    async close() {
      changes.stop();
      await Promise.all([...writers].map((writer) => writer.close()));
      await index.db.close();
    },
  };
}

/** This process's appends are known at once; others' by looking at their count while anyone waits. */
function watchAppends(
  index: LogIndex,
  pollMs: number,
): AppendWatch & { readonly wake: () => void; readonly stop: () => void } {
  let waiting = new Set<() => void>();
  let version = 0;
  let polling = false;
  let stopped = false;
  let seen = numberOf(index, APPENDS);

  const wake = (): void => {
    version++;
    const woken = waiting;
    waiting = new Set();
    for (const resolve of woken) resolve();
  };
  const poll = async (): Promise<void> => {
    while (waiting.size > 0 && !stopped) {
      await delay(pollMs);
      if (stopped) return;
      refresh(index);
      const count = numberOf(index, APPENDS);
      if (count === seen) continue;
      seen = count;
      wake();
    }
    polling = false;
  };
  return {
    version: () => version,
    changedSince(from, signal) {
      if (signal.aborted || stopped || version !== from) return Promise.resolve();
      return new Promise((resolve) => {
        const done = (): void => {
          signal.removeEventListener('abort', done);
          waiting.delete(done);
          resolve();
        };
        signal.addEventListener('abort', done, { once: true });
        waiting.add(done);
        if (polling) return;
        polling = true;
        // An index that was closed under the poll: followers look for themselves, and say so.
        poll().catch(wake);
      });
    },
    wake,
    stop() {
      stopped = true;
      wake();
    },
  };
}

function createAdmin(index: LogIndex, directory: string, clock: () => number, retentionBytes: number): LogAdmin {
  let moving = false;
  const change = async <T>(what: string, action: () => T): Promise<T> => {
    try {
      return await write(index, action);
    } catch (cause) {
      throw await storageError(directory, what, cause);
    }
  };
  return {
    logId: () => Promise.resolve(index.logId),
    topics() {
      refresh(index);
      return Promise.resolve(topicNames(index));
    },
    topicIds(topics) {
      refresh(index);
      const ids = new Map<string, string | null>();
      for (const name of topics) {
        const topic = topicOf(index, name);
        if (topic !== null) ids.set(name, String(topic.id));
      }
      return Promise.resolve(ids);
    },
    async ensureTopics(topics) {
      refresh(index);
      const other = Object.entries(topics).filter(
        ([name, { retentionMs }]) => topicOf(index, name)?.settings.retentionMs !== retentionMs,
      );
      if (other.length === 0) return;
      await change('topics cannot be created', () => {
        for (const [name, settings] of other) {
          const standing = topicOf(index, name);
          if (standing === null) putTopic(index, { id: nextNumber(index, 'topics'), name, settings });
          // No other tool could set it: what the configuration says now is what holds.
          else putTopic(index, { ...standing, settings: { ...standing.settings, retentionMs: settings.retentionMs } });
        }
      });
    },
    async deleteTopics(topics) {
      const emptied = await change('topics cannot be deleted', () => {
        const gone: number[] = [];
        for (const name of topics) {
          const topic = topicOf(index, name);
          if (topic === null) continue;
          for (let partition = 0; partition < topic.settings.partitions; partition++) {
            gone.push(...dropChunks(index, topic, partition, partitionState(index, topic.id, partition).next));
          }
          removeTopic(index, topic);
        }
        return gone;
      });
      for (const id of emptied) await deleteSegment(directory, id);
    },
    async releaseUpTo(name, offsets) {
      const emptied = await change('records cannot be released', () => {
        const topic = topicOf(index, name);
        if (topic === null) throw new LogError('LOG_TOPIC_MISSING', `the log has no topic ${name}`);
        const gone: number[] = [];
        for (const [partition, offset] of offsets) {
          const state = partitionState(index, topic.id, partition);
          const released = offset < state.next ? offset : state.next;
          if (released > state.released) putPartitionState(index, topic.id, partition, { ...state, released });
          gone.push(...trimPartition(index, topic, partition, clock(), retentionBytes));
        }
        return gone;
      });
      for (const id of emptied) await deleteSegment(directory, id);
      if (moving) return;
      moving = true;
      try {
        await moveSurvivors(index, directory);
      } catch {
        // Nothing is lost or half done, and the next release tries again; the writer meets the same disk and says so.
      } finally {
        moving = false;
      }
    },
    mirrorGroup: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
