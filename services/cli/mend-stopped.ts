/**
 * Mends a table that stands still by name, through the service that owns it: read again whole where the source's side stopped
 * or the log lost what the lake lacks, else only set going. The table's history in the lake stays.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../runtime/config.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import type { LogTailText } from './log-tail-text.ts';
import { callService, pollService } from './service-client.ts';
import type { StatusReport, TableLine } from './status-report.ts';

export interface MendOptions {
  readonly url: string | undefined;
  readonly signal: AbortSignal;
  /** One line about what is done. */
  readonly tell: (text: string) => void;
}

/** States of the stream's side in which the log no longer leads from where the table stands to where it must come. */
const LOST_LOG: ReadonlySet<string> = new Set(['TOPIC_RESET', 'OFFSETS_EXPIRED', 'LAKE_TABLE_FOREIGN']);
/** A table may stand still on both sides, one behind the other. */
const STOPS_MAX = 3;
const CALL_MS = 120_000;
const POLL_MS = 200;

export interface Stopped {
  readonly tables: readonly TableLine[];
  /** Why the reader as a whole stands still, if it does. */
  readonly reader: NonNullable<StatusReport['reader']>['stopped'];
}

/** Looks where all tables stand now; reader and stream may be services of their own, and each is asked for its side. */
export async function findStopped(config: Config, url: string | undefined): Promise<Stopped> {
  const ask = (name: string, half: 'reader' | 'stream'): Promise<StatusReport> =>
    callService(config, { path: `/control/${name}`, body: {}, url, half, timeoutMs: CALL_MS });
  const stream = await ask('check-tables', 'stream');
  const both = stream.reader === null ? await ask('reader-status', 'reader') : stream;
  const atReader = both.tables.filter(({ stoppedAt }) => stoppedAt === 'reader');
  const atStream = stream.tables.filter(
    ({ stoppedAt, table }) => stoppedAt === 'stream' && !atReader.some((line) => line.table === table),
  );
  return { tables: [...atReader, ...atStream], reader: both.reader?.stopped ?? null };
}

export async function stoppedLine(
  config: Config,
  url: string | undefined,
  table: string,
): Promise<TableLine | undefined> {
  return (await findStopped(config, url)).tables.find((line) => line.table === table);
}

export type MendPlan = 'reread' | 'retype' | 'resume';

export function mendPlan(line: TableLine): MendPlan {
  if (line.stoppedAt === 'reader' || LOST_LOG.has(line.state)) return 'reread';
  return line.state === 'SCHEMA_CONFLICT' ? 'retype' : 'resume';
}

const DOES: Readonly<Record<MendPlan, string>> = {
  reread: 'reads the whole table again, without what the source no longer has',
  retype:
    'where the lake has a column in another type than the contract, or lacks a key column: rewrites the table and reads it whole (its history stays); else tries again',
  resume: 'tries again',
};

export function describeMend(line: TableLine): string {
  return `${line.table} ${line.state}: ${line.why ?? ''}\n${line.table}: ${DOES[mendPlan(line)]}\n`;
}

/** Until the table goes on and its snapshot is complete. @throws SluiceError TABLE_STANDS_STILL when it does not */
export async function mendStopped(config: Config, first: TableLine, options: MendOptions): Promise<void> {
  const { url } = options;
  let line: TableLine | undefined = first;
  for (let stop = 0; stop < STOPS_MAX && line !== undefined; stop++) {
    options.tell(describeMend(line));
    const plan = mendPlan(line);
    const retyped = plan === 'retype' && (await retype(config, line.table, options, true));
    if (plan === 'reread') await reread(config, line.table, options, { move: line.stoppedAt === 'stream', retyped });
    else if (retyped) await reread(config, line.table, options, { move: true, retyped });
    else {
      const body = { tables: [line.table] };
      await callService(config, { path: '/control/resume', body, url, half: 'stream' });
    }
    line = await stoppedLine(config, url, first.table);
  }
  if (line !== undefined) throw stillStopped(line);
}

/** The reader itself stands still: the slot is made anew, and every table is read again. Resolves when all are. */
export async function mendSource(config: Config, options: MendOptions): Promise<readonly string[]> {
  const { url } = options;
  await callService(config, { path: '/control/mend-source', body: {}, url, half: 'reader', timeoutMs: CALL_MS });
  const tables = (await readerTables(config, url)).filter(({ snapshot }) => snapshot !== null);
  for (const { table } of tables) await snapshotEnds(config, table, options);
  return tables.map(({ table }) => table);
}

/** In this order a crash in between leaves the table stopped, never past what the log lost. */
async function reread(
  config: Config,
  table: string,
  options: MendOptions,
  { move, retyped }: { readonly move: boolean; readonly retyped: boolean },
): Promise<void> {
  const { url } = options;
  const call = <T>(name: string, half: 'reader' | 'stream', body: object): Promise<T> =>
    callService<T>(config, { path: `/control/${name}`, body, url, half, timeoutMs: CALL_MS });
  const tail = move ? await call<LogTailText>('log-tail', 'stream', { table }) : null;
  await call('reread', 'reader', { table });
  if (retyped) await retype(config, table, options, false);
  if (tail !== null) await call('move-table', 'stream', { table, tail });
  await snapshotEnds(config, table, options);
}

/** Whether columns get another type; `dryRun`: only looks. @throws what the contract has against it */
async function retype(config: Config, table: string, { url, tell }: MendOptions, dryRun: boolean): Promise<boolean> {
  const call = { path: '/control/retype-table', body: { table, dryRun }, url, half: 'stream' as const };
  const { columns } = await callService<RetypeAnswer>(config, { ...call, timeoutMs: CALL_MS });
  for (const { column, from, to } of dryRun ? columns : [])
    tell(`${table}: ${column} is ${from} in the lake and becomes ${to}\n`);
  return columns.length > 0;
}

interface RetypeAnswer {
  readonly columns: readonly { readonly column: string; readonly from: string; readonly to: string }[];
}

async function snapshotEnds(config: Config, table: string, { url, signal, tell }: MendOptions): Promise<void> {
  let shown = 0;
  while (!signal.aborted) {
    const line = (await readerTables(config, url)).find((each) => each.table === table);
    if (line === undefined || line.snapshot === null) return;
    const tenth = Math.floor(line.snapshot * 10);
    if (tenth > shown) tell(`${table}: ${tenth * 10} % read\n`);
    shown = Math.max(shown, tenth);
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** As the reader's half tells it: the stream's knows of no snapshot. */
async function readerTables(config: Config, url: string | undefined): Promise<readonly TableLine[]> {
  const call = { path: '/control/reader-status', body: {}, url, half: 'reader' as const };
  return (await pollService<StatusReport>(config, call)).tables;
}

function stillStopped(line: TableLine): SluiceError {
  return new SluiceError('TABLE_STANDS_STILL', `${line.table} stands still again (${line.state}): ${line.why ?? ''}`, {
    exit: ExitCode.namedState,
    remedy: line.remedy ?? '',
  });
}
