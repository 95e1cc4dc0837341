/**
 * Mends a table that stands still by name, through the service that owns it: read again whole where the source's side stopped
 * or the log lost what the lake lacks, else only set going. The table's history in the lake stays.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../runtime/config.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import type { LogTailText } from './log-tail-text.ts';
import { callService } from './service-client.ts';
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

export type MendPlan = 'reread' | 'resume';

export function mendPlan(line: TableLine): MendPlan {
  return line.stoppedAt === 'reader' || LOST_LOG.has(line.state) ? 'reread' : 'resume';
}

export function describeMend(line: TableLine): string {
  const does =
    mendPlan(line) === 'reread' ? 'reads the whole table again, without what the source no longer has' : 'tries again';
  return `${line.table} ${line.state}: ${line.why ?? ''}\n${line.table}: ${does}\n`;
}

/** Until the table goes on and its snapshot is complete. @throws SluiceError TABLE_STANDS_STILL when it does not */
export async function mendStopped(config: Config, first: TableLine, options: MendOptions): Promise<void> {
  const { url } = options;
  let line: TableLine | undefined = first;
  for (let stop = 0; stop < STOPS_MAX && line !== undefined; stop++) {
    options.tell(describeMend(line));
    if (mendPlan(line) === 'resume') {
      const body = { tables: [line.table] };
      await callService(config, { path: '/control/resume', body, url, half: 'stream' });
    } else await reread(config, line.table, options, line.stoppedAt === 'stream');
    line = await stoppedLine(config, url, first.table);
  }
  if (line !== undefined) throw stillStopped(line);
}

/** In this order a crash in between leaves the table stopped, never past what the log lost. */
async function reread(config: Config, table: string, options: MendOptions, move: boolean): Promise<void> {
  const { url } = options;
  const call = <T>(name: string, half: 'reader' | 'stream', body: object): Promise<T> =>
    callService<T>(config, { path: `/control/${name}`, body, url, half, timeoutMs: CALL_MS });
  const tail = move ? await call<LogTailText>('log-tail', 'stream', { table }) : null;
  await call('reread', 'reader', { table });
  if (tail !== null) await call('move-table', 'stream', { table, tail });
  await snapshotEnds(config, table, options);
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
  return (await callService<StatusReport>(config, call)).tables;
}

function stillStopped(line: TableLine): SluiceError {
  return new SluiceError('TABLE_STANDS_STILL', `${line.table} stands still again (${line.state}): ${line.why ?? ''}`, {
    exit: ExitCode.namedState,
    remedy: line.remedy ?? '',
  });
}
