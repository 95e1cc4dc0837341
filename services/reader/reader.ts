/**
 * PostgreSQL → log. Own the slot, fence older writers, read the state, stream; meanwhile snapshot what is not complete, and
 * compare on every heartbeat. When the source or the log is lost, all of it begins anew from what the log has; when
 * continuity is broken, it stops by name.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LogError } from '../log/log.ts';
import { failureCode } from '../runtime/failure-code.ts';
import { ContinuityError } from './attach.ts';
import { absentKeysQuery, keyCondition } from './key-query.ts';
import { isNamed } from './later-tables.ts';
import { createMonitor, type Monitor } from './monitor.ts';
import { ReaderError } from './reader-error.ts';
import {
  DEFAULT_LIMITS,
  type ReaderHandle,
  type ReaderOptions,
  type ReaderPhase,
  type ReaderStatus,
} from './reader-options.ts';
import { openRun, type ReaderRun } from './reader-run.ts';
import type { AbsentQuery } from './snapshot-plan.ts';
import { sqlstateOf } from './server-error.ts';
import { readerStatus } from './reader-status.ts';
import { keyOf } from './shapes.ts';
import { exactGlob } from './table-globs.ts';
import type { TableRoute } from './table-route.ts';

export interface ReaderShared {
  phase: ReaderPhase;
  stopped: ReaderStatus['stopped'];
  run: ReaderRun | null;
  monitor: Monitor | null;
  lastError: string | null;
  failing: ReaderStatus['failing'];
  /** Marks in the log when the run began: one more, and what failed before has passed. */
  openedAt: number;
  /** Tables refused at the last attach. */
  serverVersion: number;
}

/**
 * Resolves when the reader streams, or waits as a standby. Rejects when the first attempt fails: nothing was started then.
 * @throws ReaderError, ContinuityError, LogError
 */
export async function startReader(given: ReaderOptions): Promise<ReaderHandle> {
  /** Grows by what is added and left out while it runs: a reconnect selects the tables again. */
  const tables = [...given.tables];
  const options: ReaderOptions = { ...given, tables };
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const shared: ReaderShared = {
    phase: 'connecting',
    stopped: null,
    run: null,
    monitor: null,
    lastError: null,
    failing: null,
    openedAt: 0,
    serverVersion: 0,
  };
  const stopping = new AbortController();
  options.signal?.addEventListener('abort', () => stopping.abort(), { once: true });
  if (options.signal?.aborted === true) stopping.abort();
  let up: () => void = () => undefined;
  const firstUp = new Promise<void>((resolve) => {
    up = resolve;
  });

  const waiting = async (standby: boolean): Promise<boolean> => {
    if (standby && shared.phase !== 'standby') {
      shared.phase = 'standby';
      options.logger.warn(
        { slot: options.slot },
        'another reader owns the slot: waiting as its standby until it is free',
      );
      up();
    }
    await pause(limits.standbyPollMs, stopping.signal);
    return !stopping.signal.aborted;
  };

  const runOnce = async (): Promise<void> => {
    const run = await openRun(options, limits, waiting, stopping.signal);
    if (run === null) return;
    shared.run = run;
    shared.openedAt = run.appender.position.sequence;
    shared.serverVersion = run.attachment.serverVersion;
    const monitor = createMonitor(run, options, limits);
    shared.monitor = monitor;
    shared.phase = 'streaming';
    up();
    const onStop = (): void => run.pump.stop();
    stopping.signal.addEventListener('abort', onStop, { once: true });
    const watching = monitor.run();
    try {
      if (!stopping.signal.aborted) {
        await Promise.race([run.pump.run(), run.attachment.stream.ended, watching, run.snapshots.broken]);
      }
    } finally {
      stopping.signal.removeEventListener('abort', onStop);
      monitor.stop();
      await run.close();
      await watching.catch(() => undefined);
    }
  };

  const loop = async (): Promise<void> => {
    let backoffMs = 250;
    while (!stopping.signal.aborted) {
      const startedMs = options.clock();
      try {
        await runOnce();
      } catch (failure) {
        if (stopping.signal.aborted) break;
        const error = namedBreak(failure, options.publication);
        if (shared.run === null && shared.phase === 'connecting') throw error;
        if (!mayRetry(error)) {
          stopByName(shared, error);
          throw error;
        }
        shared.phase = 'reconnecting';
        shared.lastError = error instanceof Error ? error.message : String(error);
        shared.failing = { code: failureCode(error), message: shared.lastError };
        options.logger.warn({ err: error, retryMs: backoffMs }, 'the reader begins anew');
        if (options.clock() - startedMs > 60_000) backoffMs = 250;
        await pause(backoffMs, stopping.signal);
        backoffMs = Math.min(backoffMs * 2, limits.reconnectMsMax);
      }
    }
    shared.phase = 'ended';
  };

  const done = loop();
  done.catch(() => undefined);
  await Promise.race([firstUp, done]);
  const running = (): ReaderRun => {
    if (shared.run !== null && shared.phase === 'streaming') return shared.run;
    throw new ReaderError('SOURCE_LOST', `the reader is not streaming (${shared.phase})`);
  };
  return {
    done,
    status: () => readerStatus(shared, options),
    async stop() {
      stopping.abort();
      shared.run?.pump.stop();
      await done.catch(() => undefined);
    },
    async resnapshot(schema, table, exact = false) {
      const run = running();
      await run.registry.repair(routeOf(run, schema, table), exact);
      await run.appender.saved();
    },
    holdSnapshot(schema, table, hold) {
      const route = shared.run?.registry.find(schema, table) ?? null;
      if (route !== null) shared.run?.snapshots.hold(route, hold);
    },
    async addTable(schema, table) {
      const run = running();
      await run.registry.add(schema, table);
      if (!isNamed(tables, schema, table)) tables.push(exactGlob({ schema, table }));
      await run.appender.saved();
    },
    async removeTable(schema, table) {
      const run = running();
      const route = routeOf(run, schema, table);
      // First, or a heartbeat that looks meanwhile would take the table for a new one.
      tables.push(`!${exactGlob({ schema, table })}`);
      const sql = await run.registry.remove(route);
      await run.appender.saved();
      return sql;
    },
    fetchRows: async (schema, table, condition, columns) => {
      const run = running();
      const route = routeOf(run, schema, table);
      refuseBag(run, route);
      return run.snapshots.fetch(route, { condition, columns: columns ?? null });
    },
    fetchKeys: async (schema, table, keys, removeAbsent) => {
      const run = running();
      const route = routeOf(run, schema, table);
      const shape = route.encoder?.shape ?? run.history.latest(schema, table);
      if (shape === null) throw new ReaderError('TABLE_NOT_FOUND', `nothing is known of ${schema}.${table} yet`);
      refuseBag(run, route);
      if (keys.length === 0) return 0;
      if (shape.columns.some(({ keyPosition, replaced }) => keyPosition > 0 && replaced !== undefined)) {
        throw new ReaderError('TABLE_KEY_MISMATCH', `the key of ${schema}.${table} is hashed before the log`, {
          remedy: `sluice repair ${schema}.${table}: it reads the whole table`,
        });
      }
      const absent: AbsentQuery = (now, rowFilter, from) => absentKeysQuery(now, keys, rowFilter, from);
      const condition = keyCondition(shape, keys);
      return run.snapshots.fetch(route, { condition, absent: removeAbsent === true ? absent : null });
    },
  };
}

function routeOf(run: ReaderRun, schema: string, table: string): TableRoute {
  const route = run.registry.find(schema, table);
  if (route !== null) return route;
  throw new ReaderError('TABLE_NOT_FOUND', `the reader does not follow a table ${schema}.${table}`);
}

/** Rows without key can only be read all together, from one snapshot. */
function refuseBag(run: ReaderRun, { schema, table, encoder }: TableRoute): void {
  const shape = encoder?.shape ?? run.history.latest(schema, table);
  if (shape === null || keyOf(shape).length > 0) return;
  throw new ReaderError(
    'TABLE_NO_KEY',
    `${schema}.${table} has no key: rows of it cannot be read again by themselves, for none of them could be told from its equals in the lake`,
    {
      remedy: `read it whole: sluice repair ${schema}.${table} (or sluice backfill without --where), or add a primary key`,
    },
  );
}
/**
 * Fenced: another reader took over while this one was held up; it waits as a standby then. Topic missing: somebody deleted it
 * under the reader; the next attempt makes it again, and the stream stops the table by name. A password or right that somebody
 * changed at the broker: the attempt reads the secret anew.
 */
const RECOVERED_LOG: ReadonlySet<string> = new Set([
  'LOG_FENCED',
  'LOG_DISK_FULL',
  'LOG_TOPIC_MISSING',
  'LOG_AUTHENTICATION',
  'LOG_ACCESS_DENIED',
]);

/**
 * A secret or certificate that somebody changes: the attempt reads it anew. A standby: while a name moves from the old primary to
 * the new one, it may lead to a server that is not promoted yet.
 */
const RECOVERED_SOURCE: ReadonlySet<string> = new Set(['SOURCE_AUTHENTICATION', 'SOURCE_TLS', 'SOURCE_IS_STANDBY']);

/** PostgreSQL below 18 cannot decode a change of a time in which there was no publication; newer ones leave it out. */
function namedBreak(error: unknown, publication: string): unknown {
  const missing = sqlstateOf(error) === '42704' && error instanceof Error && error.message.includes(`"${publication}"`);
  if (!missing) return error;
  const detail = `publication "${publication}" was not there when the changes that come next were made`;
  return new ContinuityError({ state: 'PUBLICATION_CHANGED', detail, gap: null });
}

/** Connection and log troubles pass; a broken continuity, a refusal or a protocol error does not. */
function mayRetry(error: unknown): boolean {
  if (error instanceof ContinuityError) return false;
  if (error instanceof ReaderError) return error.retriable || RECOVERED_SOURCE.has(error.code);
  if (error instanceof LogError) return error.retriable || RECOVERED_LOG.has(error.code);
  return isFullDisk(error);
}

/** The state folder's disk, under what a transaction spilled: it goes on once there is room. */
function isFullDisk(error: unknown): boolean {
  return failureCode(error) === 'ENOSPC';
}

function stopByName(shared: ReaderShared, error: unknown): void {
  shared.phase = 'stopped';
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof ContinuityError) shared.stopped = { state: error.broken.state, detail, remedy: error.remedy };
  else if (error instanceof ReaderError) shared.stopped = { state: error.code, detail, remedy: error.remedy };
  else shared.stopped = { state: error instanceof LogError ? error.code : 'INTERNAL', detail, remedy: '' };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
