/**
 * The pipeline's marks, read in turns: a turn goes on to the end of the pipeline, or until they are to be read anew, as when a
 * worker takes over a table whose marks lie behind those that are known.
 */
import type { Mark } from '../log/event.ts';
import type { EventLog } from '../log/log.ts';
import { progressBounds } from '../stream/sources/mark-feed.ts';
import type { MarkTimeline } from '../stream/sources/mark-timeline.ts';
import type { Clock } from '../stream/triggers.ts';
import { createCutMaker } from './foreign-topics.ts';
import type { ForeignTable } from './foreign-topics.ts';
import { feedCuts, feedMarks } from './mark-source.ts';
import type { TableRunners } from './table-runners.ts';

/** Marks behind the newest at which a worker without tables begins. */
const MARKS_BACK = 1000n;

export interface MarkTurnsOptions {
  readonly log: Pick<EventLog, 'reader'>;
  readonly logId: string;
  readonly name: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly timeline: MarkTimeline;
  readonly tables: TableRunners;
  /** Topics without marks: cuts are made of their ends, at most so many offsets a step. */
  readonly foreign: { readonly tables: readonly ForeignTable[]; readonly stepOffsets: number } | null;
  /** Whether workers share the tables out: one without a table then begins near the end. */
  readonly shared: () => boolean;
  /** `until` is the end of the turn: a mark that is on its way then comes again, in its place. */
  readonly onMark: (mark: Mark, offset: bigint, until: AbortSignal) => Promise<void>;
  readonly onMarks: () => void;
  readonly onFailure: (error: unknown) => void;
}

export interface MarkTurns {
  run(): Promise<void>;
  /** Ends the turn and forgets what is known of the marks. */
  anew(): void;
  /** Whole looks at the ends of foreign topics so far. */
  looks(): number;
}

export function createMarkTurns(options: MarkTurnsOptions): MarkTurns {
  const { log, name, clock, signal, timeline, tables, foreign } = options;
  let turn = new AbortController();
  let looks = 0;

  /** Where the furthest-behind table stopped; null, where a table has no batch yet or a user's query keeps its own place. */
  async function firstMark(): Promise<bigint | null> {
    try {
      if (tables.size === 0 && options.shared()) return await nearTheEnd();
      if (tables.size === 0 || tables.queries().length > 0) return null;
      const offsets = await Promise.all(tables.all().map(({ table }) => table.progressOffset()));
      if (offsets.includes(null)) return null;
      return offsets.reduce(
        (least, at) => (least === null || at === null || at < least ? at : least),
        offsets[0] ?? null,
      );
    } catch {
      // The table's own first step says what is wrong with it.
      return null;
    }
  }

  async function nearTheEnd(): Promise<bigint | null> {
    const bounds = await progressBounds(log.reader, name);
    return bounds === null || bounds.end - MARKS_BACK < bounds.earliest ? null : bounds.end - MARKS_BACK;
  }

  async function readTurn(until: AbortSignal): Promise<void> {
    const source = {
      reader: log.reader,
      name,
      clock,
      signal: until,
      onMark: (mark: Mark, offset: bigint) => options.onMark(mark, offset, until),
      onMarks: options.onMarks,
      onFailure: options.onFailure,
    };
    if (foreign === null) {
      await feedMarks(source, firstMark);
      return;
    }
    const above = (): number => Math.max(0, ...tables.all().map(({ table }) => table.position().markSequence));
    const makeCuts = createCutMaker({
      reader: log.reader,
      logId: options.logId,
      topics: foreign.tables.map(({ topic }) => topic),
      stepOffsets: foreign.stepOffsets,
      now: () => clock.now(),
    });
    await feedCuts(
      source,
      () => makeCuts(above()),
      () => looks++,
    );
  }

  return {
    async run() {
      while (!signal.aborted) {
        turn = new AbortController();
        await readTurn(AbortSignal.any([signal, turn.signal]));
      }
    },
    anew() {
      turn.abort();
      timeline.reset();
    },
    looks: () => looks,
  };
}
