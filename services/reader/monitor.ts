/**
 * The heartbeat: what the server says of the slot, the WAL and the tables, every few seconds on a connection of its own.
 * It confirms nothing; it compares (continuity.ts), measures (slot-insurance.ts), forgets transactions that became visible,
 * and lets an idle database's slot move.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseLsn, type Lsn } from '../log/position.ts';
import { ContinuityError } from './attach.ts';
import { listTables, partitionRoot, type SourceTable } from './catalog.ts';
import {
  leafRefilled,
  publicationBreak,
  rewriteOf,
  sourceBreak,
  tableBreak,
  tableRemedy,
  type TableNow,
} from './continuity.ts';
import { MARK_PREFIX, MESSAGE_PREFIX } from './message-pump.ts';
import { findPublication, publicationRevision, requireComplete, type Publication } from './publication.ts';
import { ReaderError } from './reader-error.ts';
import type { ReaderLimits, ReaderOptions } from './reader-options.ts';
import type { ReaderRun } from './reader-run.ts';
import { keyOf } from './shapes.ts';
import { sqlstateOf } from './server-error.ts';
import { findSlot } from './slot.ts';
import { slotInsurance, type SlotInsurance, type SlotSample } from './slot-insurance.ts';
import type { SourceSession } from './source.ts';
import { matchesGlobs } from './table-globs.ts';
import { tableKey } from './table-key.ts';
import { isAltered, takesEvents, type TableRoute } from './table-route.ts';
import { leaves, publishedTable, seenOf } from './table-selection.ts';
import { parseSnapshot } from './visibility.ts';

export interface MonitorFigures {
  sourceLsn: Lsn;
  sourceTimeMicros: bigint;
  insurance: SlotInsurance | null;
}

const PRUNE_MS = 500;

export interface Monitor {
  run(): Promise<void>;
  stop(): void;
  readonly figures: MonitorFigures;
}

export function createMonitor(run: ReaderRun, options: ReaderOptions, limits: ReaderLimits): Monitor {
  const figures: MonitorFigures = { sourceLsn: run.attachment.position.lsn, sourceTimeMicros: 0n, insurance: null };
  const seen = new Map<TableRoute, TableNow>();
  let stopped = false;
  let sample: SlotSample | null = null;
  let receivedBefore: Lsn | null = null;
  const abort = new AbortController();

  const heartbeat = async (session: SourceSession): Promise<void> => {
    const now = await sampleSlot(session, run, options);
    figures.sourceLsn = now.sample.walLsn as Lsn;
    figures.sourceTimeMicros = now.sourceTimeMicros;
    figures.insurance = slotInsurance(sample, now.sample);
    sample = now.sample;
    await compareTables(session, run, options, seen);
    // No row, no keepalive that moved us since the last heartbeat, and WAL was written: a message of ours moves the slot.
    const { received } = run.pump;
    if (receivedBefore === received && !run.pump.transactionOpen && now.sample.walLsn > received) {
      await session.query(`SELECT pg_logical_emit_message(true, '${MESSAGE_PREFIX}', 'heartbeat')`);
    }
    receivedBefore = received;
  };

  return {
    figures,
    stop() {
      stopped = true;
      abort.abort();
    },
    async run() {
      const session = await options.source.session('heartbeat');
      try {
        await session.query('SET synchronous_commit = local');
        let next = 0;
        let look = options.clock() + limits.contractsMs;
        while (!stopped) {
          const at = options.clock();
          if (at >= next || run.registry.routes().some(isAltered)) {
            next = at + limits.heartbeatMs;
            await heartbeat(session).catch((error: unknown) => {
              // A lock that was not to be had, a statement that somebody cancelled: the next heartbeat looks again.
              if (!(error instanceof ReaderError && error.retriable) || sqlstateOf(error) === null || session.closed)
                throw error;
              options.logger.warn({ err: error }, 'a look at the source failed; it is made again');
            });
          }
          if (options.privacy !== undefined && at >= look) {
            look = at + limits.contractsMs;
            await run.registry.followContracts();
          }
          if (run.unseen.xids.size > 0) {
            const [row] = await session.query('SELECT pg_current_snapshot() AS s');
            const snapshot = parseSnapshot(row?.['s'] ?? '');
            run.unseen.prune(snapshot);
            run.snapshots.seen(snapshot);
          }
          if (options.committedLsn !== null) await run.confirm();
          await sleep(Math.min(PRUNE_MS, limits.heartbeatMs), undefined, { signal: abort.signal }).catch(
            () => undefined,
          );
        }
      } finally {
        await session.close();
      }
    },
  };
}

async function sampleSlot(
  session: SourceSession,
  run: ReaderRun,
  options: ReaderOptions,
): Promise<{ readonly sample: SlotSample; readonly sourceTimeMicros: bigint }> {
  // As it is before the server is asked: by the time its answers are here, the position may have passed the end that they name.
  const { position } = run.appender;
  const slot = await findSlot(session, options.slot);
  const [row] = await session.query(`
SELECT pg_current_wal_lsn() AS lsn, (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS micros,
  (SELECT json_build_object('pid', pid, 'seconds', extract(epoch FROM clock_timestamp() - xact_start)::int8, 'application', application_name)
   FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1) AS oldest`);
  const walLsn = parseLsn(row?.['lsn'] ?? '0/0');
  const broken = sourceBreak(position, {
    ...run.attachment.identity,
    ancestors: run.attachment.ancestors,
    slot,
    walLsn,
  });
  // The slot is ours and in use: only an invalidation, or the loss of the whole server, can show here.
  if (broken !== null && broken.state !== 'SLOT_MOVED') throw new ContinuityError(broken);
  const oldest = row?.['oldest'];
  return {
    sourceTimeMicros: BigInt(row?.['micros'] ?? '0'),
    sample: {
      atMs: options.clock(),
      walLsn,
      restartLsn: slot?.restartLsn ?? walLsn,
      safeWalBytes: slot?.safeWalBytes ?? null,
      walStatus: slot?.walStatus ?? 'lost',
      oldestTransaction: oldest == null ? null : (JSON.parse(oldest) as SlotSample['oldestTransaction']),
    },
  };
}

async function compareTables(
  session: SourceSession,
  run: ReaderRun,
  options: ReaderOptions,
  seen: Map<TableRoute, TableNow>,
): Promise<void> {
  // What is altered from here on is looked at the next time.
  const altered = run.registry.routes().filter(isAltered);
  const alterations = altered.map((route) => route.alterations);
  /** What was known of each when the server was asked: of one that is planned anew meanwhile the answers say nothing. */
  const known = new Map(run.registry.routes().map((route) => [route, route.state.seen]));
  // The publication first: what is dropped or replaced between the two looks is a table that is not the one that we follow,
  // and not one that was taken out of the publication.
  const publication = await findPublication(session, options.publication);
  const tables = await listTables(session);
  if (publication === null) {
    throw new ContinuityError({
      state: 'PUBLICATION_CHANGED',
      detail: `publication "${options.publication}" does not exist any more`,
      gap: null,
    });
  }
  requireComplete(
    publication,
    tables.some((table) => table.relkind === 'p' && run.registry.find(table.schema, table.table) !== null),
  );
  const redefined = publicationBreak(run.attachment.identity.publication, publicationRevision(publication));
  if (redefined !== null) throw new ContinuityError(redefined);
  for (const route of run.registry.routes()) {
    if (known.get(route) !== route.state.seen) continue;
    if (route.state.phase !== 'removed' && !tables.some((table) => isOf(table, route)))
      if (await letPartitionGo(session, run, route)) continue;
    if (!takesEvents(route.state)) continue;
    // Just about to be planned anew, from the catalog as it is.
    if (route.state.phase === 'snapshotting' && route.state.heaps.length === 0) continue;
    const table = tables.find((each) => isOf(each, route)) ?? null;
    const now = table === null ? null : tableNow(table, publication);
    const shape = run.history.latest(route.schema, route.table);
    const before = { state: route.state, key: shape === null ? null : keyOf(shape), now: seen.get(route) ?? null };
    const broken = tableBreak(before, now);
    if (broken !== null && broken.state !== 'PARTITIONS_CHANGED') {
      run.registry.stop(route, {
        state: broken.state,
        detail: broken.detail,
        remedy: tableRemedy(broken.state, `${route.schema}.${route.table}`),
      });
      continue;
    }
    const lastLeaves = route.state.partitions;
    if (table !== null && route.state.phase === 'streaming' && leaves(table).join('\0') !== lastLeaves.join('\0')) {
      // ATTACH, DETACH and DROP of a partition send no row events: the table is read again, the rest goes on.
      const detail = `partitions of ${route.schema}.${route.table} were [${lastLeaves.join(', ')}] and are now [${leaves(table).join(', ')}]`;
      const removed = lastLeaves.some((leaf) => !leaves(table).includes(leaf));
      options.logger.warn({ table: `${route.schema}.${route.table}`, state: 'PARTITIONS_CHANGED' }, detail);
      run.registry.resnapshot(route, removed);
    }
    if (table !== null) followRewrites(run, options, route, table);
    if (now === null) continue;
    seen.set(route, now);
    if (route.state.published?.entries === undefined && route.state.phase === 'streaming') {
      const { rowFilter, columnList, entries } = now;
      route.state = { ...route.state, published: { rowFilter, columnList, entries } };
      run.appender.noteTable(route.state);
    }
  }
  for (const [index, route] of altered.entries()) route.alterationsSeen = alterations[index] ?? 0;
  // A mark that no longer withholds them, at once.
  if (altered.length > 0) await session.query(`SELECT pg_logical_emit_message(true, '${MARK_PREFIX}', '')`);
  for (const table of tables) {
    const route = run.registry.find(table.schema, table.table);
    if (
      (route === null || route.state.phase === 'removed') &&
      options.newTables !== 'ignore' &&
      matchesGlobs(options.tables, table.schema, table.table)
    ) {
      await run.registry.adopt(table.schema, table.table, tables);
    }
  }
}

const isOf = (table: SourceTable, { schema, table: name }: TableRoute): boolean =>
  table.schema === schema && table.table === name;

/** A table that was attached to one that is followed too: its rows come with that one's from there on. */
async function letPartitionGo(session: SourceSession, run: ReaderRun, route: TableRoute): Promise<boolean> {
  const root = await partitionRoot(session, route.schema, route.table);
  const whole = root === null ? null : run.registry.find(root.schema, root.table);
  if (whole === null || !takesEvents(whole.state)) return false;
  await run.registry.letGo(route, `is a partition of ${whole.schema}.${whole.table} now, where its rows are`);
  return true;
}

/** TABLE_REWRITTEN: what the stream could not tell is read again, while it goes on. */
function followRewrites(run: ReaderRun, options: ReaderOptions, route: TableRoute, table: SourceTable): void {
  const now = seenOf(table);
  const before = route.state.seen;
  if (before !== null && JSON.stringify(before) === JSON.stringify(now)) return;
  const detail = before === null ? null : rewriteOf(before, now);
  const truncated = route.truncates > route.truncatesSeen;
  route.truncatesSeen = route.truncates;
  route.state = { ...route.state, seen: now };
  const name = `${route.schema}.${route.table}`;
  if (detail === null) {
    const leaf = before === null || table.relkind !== 'p' ? null : leafRefilled(before, now, truncated);
    if (leaf === null) {
      run.appender.noteTable(route.state);
      return;
    }
    const told = `partition ${leaf} of ${name} has another file: a TRUNCATE of one partition is not sent; ${name} is read again`;
    options.logger.warn({ table: name, state: 'PARTITIONS_CHANGED' }, told);
    run.registry.resnapshot(route, true);
    return;
  }
  options.logger.warn({ table: name, state: 'TABLE_REWRITTEN' }, `${name}: ${detail}; it is read again`);
  run.registry.resnapshot(route, false);
}

function tableNow(table: SourceTable, publication: Publication): TableNow {
  const published = publishedTable(publication, table.schema, table.table);
  let key: readonly string[] = [];
  try {
    key = tableKey(table);
  } catch (error) {
    if (!(error instanceof ReaderError)) throw error;
  }
  return {
    oid: table.oid,
    key,
    heaps: table.heaps,
    partitioned: table.relkind === 'p',
    published: published !== null,
    rowFilter: published?.rowFilter ?? null,
    columnList: published?.columns ?? null,
    entries: published?.entries ?? [],
  };
}
