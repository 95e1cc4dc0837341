/**
 * The reader of a running service: a named state stops it and not the process, whether it is found at the start or later. It
 * looks again from time to time, so that a repair needs no restart.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lsn } from '../log/position.ts';
import { ReaderError } from '../reader/reader-error.ts';
import type { ReaderHandle, ReaderStatus } from '../reader/reader-options.ts';
import { ExitCode } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logger.ts';
import { explainFailure, stateOf } from './explain-failure.ts';

/** Between two looks whether the reader may go on. */
const LOOK_MS = 5_000;

/**
 * A source or log that broke since the last run leaves the process up; a first start that cannot be (no key, no right) is the
 * caller's, and thrown.
 */
export async function startStandingReader(
  start: (onSourceBreak?: 'resnapshot') => Promise<ReaderHandle>,
  logger: Logger,
  lookMs = LOOK_MS,
): Promise<ReaderHandle> {
  const stopping = new AbortController();
  let reader: ReaderHandle | null = null;
  let stopped: ReaderStatus['stopped'] = null;
  let last: ReaderStatus | null = null;

  const stands = (error: unknown): void => {
    const { message, remedy, exit } = explainFailure(error);
    if (exit !== ExitCode.namedState || (last === null && reader === null && stopped === null && !isBreak(error)))
      throw error;
    if (stopped?.detail !== message) logger.error({ err: error, remedy }, 'the reader stopped by a named state');
    stopped = { state: stateOf(error), detail: message, remedy };
    last = reader?.status() ?? last;
    reader = null;
  };

  const attempt = async (onSourceBreak?: 'resnapshot'): Promise<void> => {
    try {
      reader = await start(onSourceBreak);
      if (stopped !== null) logger.info('the reader goes on');
      stopped = null;
    } catch (error) {
      stands(error);
    }
  };
  /** One at a time: two would fight for the slot. */
  let trying: Promise<void> = Promise.resolve();
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const mine = trying.then(work);
    trying = mine.catch(() => undefined);
    return mine;
  };

  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      const running = reader;
      if (running === null) {
        await sleep(lookMs, undefined, { signal: stopping.signal }).catch(() => undefined);
        // What passes by itself is waited for, too: the state stands until the reader streams again.
        if (!stopping.signal.aborted)
          await inTurn(async () => (reader === null ? attempt() : undefined)).catch((error: unknown) =>
            logger.warn({ err: error }, 'the reader cannot look yet'),
          );
        continue;
      }
      try {
        await running.done;
        // It was told to stand still: what it waits for now is to be mended.
        if (reader !== running && !stopping.signal.aborted) continue;
        return;
      } catch (error) {
        if (stopping.signal.aborted) return;
        stands(error);
      }
    }
  }

  await attempt();
  const done = follow();
  done.catch(() => undefined);
  const running = (): ReaderHandle => {
    if (reader !== null) return reader;
    throw new ReaderError('SOURCE_LOST', `the reader stands still: ${stopped?.state ?? 'stopped'}`, {
      remedy: stopped?.remedy ?? 'see `sluice status`',
      retriable: false,
    });
  };
  return {
    done,
    status: () =>
      stopped === null && reader !== null ? reader.status() : { ...(last ?? NOTHING_YET), phase: 'stopped', stopped },
    async stop() {
      stopping.abort();
      await reader?.stop();
      await done.catch(() => undefined);
    },
    mendSource: () =>
      inTurn(async () => {
        if (stopping.signal.aborted || reader !== null) return;
        await attempt('resnapshot');
        running();
      }),
    standStill: (why, then) =>
      inTurn(async () => {
        const running = reader;
        if (running !== null) {
          last = running.status();
          stopped = why;
          reader = null;
          await running.stop();
        }
        await then();
      }),
    // Where none runs there is nothing to hold; it is told again when one does.
    holdSnapshot: (schema, table, hold) => reader?.holdSnapshot(schema, table, hold),
    resnapshot: (schema, table, exact) => running().resnapshot(schema, table, exact),
    addTable: (schema, table) => running().addTable(schema, table),
    removeTable: (schema, table) => running().removeTable(schema, table),
    fetchRows: (schema, table, condition, columns) => running().fetchRows(schema, table, condition, columns),
    fetchKeys: (schema, table, keys, removeAbsent) => running().fetchKeys(schema, table, keys, removeAbsent),
  };
}

/** Broken continuity: what was there once is not what is there now. */
function isBreak(error: unknown): boolean {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) if ('broken' in cause) return true;
  return false;
}

const ZERO = 0n as Lsn;
const NOTHING_YET: ReaderStatus = {
  phase: 'stopped',
  stopped: null,
  epoch: 0,
  serverVersion: 0,
  sourceLsn: ZERO,
  receivedLsn: ZERO,
  durableLsn: ZERO,
  confirmedLsn: ZERO,
  lagMs: 0,
  lagBytes: 0n,
  bytes: 0n,
  marks: 0,
  tables: [],
  announced: [],
  insurance: null,
  lastError: null,
  failing: null,
};
