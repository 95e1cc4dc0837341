/** What the lake has of a table goes, at a place of its own in the order: everything that is read comes behind it. */
import type { createEnvelopeEncoder } from '../log/envelope-encode.ts';
import type { Lsn } from '../log/position.ts';
import type { LogAppender } from './log-appender.ts';
import type { WatermarkWork } from './message-pump.ts';
import type { ClaimStore } from './outgoing-batch.ts';
import { workAtMark } from './mark-work.ts';
import { emitClear } from './snapshot-emit.ts';
import type { TablePlan } from './snapshot-plan.ts';
import type { SourceSession } from './source.ts';

export interface MarkPlace {
  readonly lsn: Lsn;
  readonly committedAtMicros: bigint;
}

/** Writes a mark and resolves with what its arrival in the stream led to. */
export type EmitMark = <T>(
  session: SourceSession,
  kind: string,
  arrive: (at: MarkPlace, settle: (value: T) => void) => WatermarkWork,
) => Promise<T>;

export interface ClearPorts {
  readonly appender: LogAppender;
  readonly encoder: ReturnType<typeof createEnvelopeEncoder>;
  readonly claims: ClaimStore;
  readonly epoch: number;
  readonly clock: () => number;
  readonly emit: EmitMark;
  /** False once the reader stops or the table is planned anew. */
  readonly isCurrent: () => boolean;
  /** Called when the reader stops before what a mark brought was written. */
  readonly waiting: Set<() => void>;
}

export interface ClearSteps<T> {
  /** Asked while the stream stands at the mark; null = not now. */
  readonly ready?: () => Promise<T | null>;
  /** The TRUNCATE event is in the batch. */
  readonly cleared: (made: T) => void;
}

/** Resolves with what `ready` made (true without it), or null when nothing was cleared. */
export async function clearTable<T>(
  ports: ClearPorts,
  marks: SourceSession,
  plan: TablePlan,
  steps: ClearSteps<T>,
  otherwise: T,
): Promise<T | null> {
  const { route } = plan;
  const { ready } = steps;
  let made: T | null = otherwise;
  return ports.emit<T | null>(marks, 'clear', (at, settle) =>
    workAtMark<T | null>(
      {
        rows: 0,
        isValid: () => ports.isCurrent(),
        otherwise: null,
        ...(ready === undefined
          ? {}
          : {
              async ready() {
                made = await ready();
                return made !== null;
              },
            }),
        write() {
          const { encoder, claims, epoch, appender } = ports;
          const place = { encoder, claims, epoch, at, shape: plan.shape, topic: route.topic, batch: appender.batch };
          emitClear({ ...place, atMs: ports.clock() }, route.partitions);
          route.state = { ...route.state, clearFirst: false };
          if (made !== null) steps.cleared(made);
          appender.noteTable(route.state);
          return { outcome: made, lastOrd: 0 };
        },
      },
      settle,
      ports.waiting,
    ),
  );
}
