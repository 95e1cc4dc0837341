/**
 * What the log is told of the tables' progress: how far records may go (the embedded log's retention), and the group mirror
 * that lag exporters read. Neither is ever read back by us. Also remembers what each mark allows to confirm.
 */
import type { Mark } from '../log/event.ts';
import type { EventLog } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { progressTopic } from '../log/topics.ts';
import type { Clock } from '../stream/triggers.ts';
import type { IngestTable } from './ingest-table.ts';

export interface StewardOptions {
  readonly name: string;
  readonly log: EventLog;
  readonly clock: Clock;
}

export interface Steward {
  marked(mark: Mark): void;
  /** `releasable`: below it no query of the topic needs a record. Asked for when it is told only. */
  tableMoved(table: IngestTable, releasable: () => ReadonlyMap<number, LogOffset>): void;
  /** Offsets in `__progress` that the tables have committed; null = a table has none yet. */
  marksDone(offsets: () => readonly (bigint | null)[]): void;
  /** What may be confirmed once every table has reached this mark. */
  confirmLsn(sequence: number): bigint | null;
  settle(): Promise<void>;
}

/** Least time between two messages about one topic. */
const TELL_EVERY_MS = 5000;
/** Marks whose confirmable LSN is remembered. */
const REMEMBERED_MAX = 50_000;

export function createSteward({ name, log, clock }: StewardOptions): Steward {
  const told = new Map<string, number>();
  const confirmable: { readonly sequence: number; readonly lsn: bigint }[] = [];
  let reached: bigint | null = null;
  let telling: Promise<void> = Promise.resolve();

  async function tell(table: IngestTable, releasable: ReadonlyMap<number, LogOffset>): Promise<void> {
    if (releasable.size === 0) return;
    await log.admin.releaseUpTo(table.topic, releasable);
    await log.admin.mirrorGroup(`sluice-${name}`, table.topic, table.committed()?.nextOffsets ?? releasable);
  }

  return {
    marked({ sequence, confirmLsn }) {
      confirmable.push({ sequence, lsn: confirmLsn });
      if (confirmable.length > REMEMBERED_MAX) confirmable.splice(1, confirmable.length / 2);
    },
    tableMoved(table, releasable) {
      const now = clock.now();
      if (now - (told.get(table.topic) ?? 0) < TELL_EVERY_MS) return;
      told.set(table.topic, now);
      const given = releasable();
      // Only for others' eyes and for space: a failure costs nothing and is mended by the next message.
      telling = telling.then(() => tell(table, given)).catch(() => undefined);
    },
    marksDone(offsets) {
      const now = clock.now();
      const topic = progressTopic(name);
      if (now - (told.get(topic) ?? 0) < TELL_EVERY_MS) return;
      told.set(topic, now);
      let least: bigint | null = null;
      for (const offset of offsets()) {
        if (offset === null) return;
        if (least === null || offset < least) least = offset;
      }
      if (least === null) return;
      const release = new Map([[0, least as LogOffset]]);
      telling = telling.then(() => log.admin.releaseUpTo(topic, release)).catch(() => undefined);
    },
    confirmLsn(sequence) {
      while (confirmable[0] !== undefined && confirmable[0].sequence <= sequence) {
        const { lsn } = confirmable[0];
        if (reached === null || lsn > reached) reached = lsn;
        confirmable.shift();
      }
      return reached;
    },
    settle: () => telling,
  };
}
