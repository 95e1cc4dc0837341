/** What `sluice replay` tells, as text and as JSON. */
import type { BuildResult } from '../replay/replay/build-table.ts';
import type { BuildDiff } from '../replay/replay/diff-build.ts';
import type { ReplayEstimate } from '../replay/replay/estimate.ts';
import type { InPlaceResult } from '../replay/replay/in-place.ts';
import type { BuildRecord, SwapRecord } from '../replay/replay/replay-record.ts';
import type { SwapResult } from '../replay/replay/swap-steps.ts';
import { formatLsn } from '../log/position.ts';
import type { SluiceError } from '../runtime/errors.ts';
import { formatBytes, formatTime } from './print-columns.ts';

/** Numbers of 64 bits as text. */
export function json(body: object): string {
  const exact = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);
  return `${JSON.stringify({ schemaVersion: 1, ...body }, exact)}\n`;
}

export type InPlaceReport = Omit<InPlaceResult, 'unsettled'> & {
  /** Keys that were read again from the source. */
  readonly keysRead: number;
  readonly settled: boolean;
};

export function inPlaceText(result: InPlaceReport): string {
  let text = `${result.table}: ${result.read} events replayed in place, offsets ${result.fromOffset} to ${result.toOffset}, LSN ${result.toLsn}`;
  text += `: ${result.applied} rows changed, ${result.released} parked events applied or superseded, ${result.parkedAgain} stay parked\n`;
  if (result.refused > 0)
    text += `  ${result.refused} events were applied once and would be refused by the contract of today: their rows stay; --into shows what it would change\n`;
  if (result.unsettledKeys > 0)
    text += result.settled
      ? `  ${result.keysRead} keys were read again from the source: what they lacked lies before the range\n`
      : `  ${result.unsettledKeys} keys lack values from before the range, and the source could not be asked for them: \`sluice repair ${result.table}\`\n`;
  return text;
}

/** Of one table among several. */
export const failureText = ({ message, remedy }: SluiceError): string => `${message}; ${remedy}\n`;

export function buildText(result: BuildResult): string {
  const { record, range, ledger } = result;
  const base =
    record.base === 'beginning'
      ? 'from the beginning of the log'
      : record.base === 'read'
        ? 'from the newest whole read of the table that the log holds'
        : `from ${record.from}: rows that did not change since are not in it`;
  let text = `${record.into}: ${result.resumed ? 'went on' : 'built'} from ${record.table} ${base}, up to LSN ${formatLsn(range.end.mark.lsn)}: ${ledger.read} events, ${ledger.applied} applied, ${result.batches} batches`;
  text += result.version === null ? '\n' : `, version ${result.version}\n`;
  if (ledger.quarantined > 0)
    text += `  ${ledger.quarantined} events are parked in ${record.into}__quarantine (${result.staleKeys} keys)\n`;
  if (result.awaiting > 0) text += `  ${result.awaiting} events wait for rows that come after the range\n`;
  return text;
}

export function buildJson(result: BuildResult): object {
  const { record, range, ledger } = result;
  return {
    kind: 'into',
    table: record.table,
    into: record.into,
    base: record.base,
    from: record.from,
    resumed: result.resumed,
    lsn: formatLsn(range.end.mark.lsn),
    batches: result.batches,
    ledger,
    staleKeys: result.staleKeys,
    awaiting: result.awaiting,
    version: result.version,
  };
}

export const hasDifferences = (diff: BuildDiff): boolean =>
  diff.added + diff.removed + diff.changed + diff.columns.length > 0;

export function diffText(diff: BuildDiff): string {
  let text = `${diff.table} (version ${diff.versionBefore}) and ${diff.into} (version ${diff.versionAfter}) ${diff.atOneLsn ? `at LSN ${diff.lsn}` : `NOT at one LSN: ${diff.table} stands still at ${diff.lsn}, before the other`}\n`;
  text += `  rows ${diff.rowsBefore} -> ${diff.rowsAfter}: ${diff.added} added, ${diff.removed} removed, ${diff.changed} changed\n`;
  for (const { column, change, before, after } of diff.columns)
    text += `  column ${column} ${change === 'type' ? `${before} -> ${after}` : `${change} (${after ?? before})`}\n`;
  for (const [column, rows] of diff.byColumn) text += `  ${column} differs in ${rows} rows\n`;
  if (diff.parkedBefore !== diff.parkedAfter)
    text += `  events in quarantine ${diff.parkedBefore} -> ${diff.parkedAfter}\n`;
  const size = (octets: number | null): string => (octets === null ? 'NULL' : `${octets} octets`);
  for (const { kind, key, cells } of diff.samples) {
    const how = cells.map(({ column, before, after }) => ` ${column} (${size(before)} -> ${size(after)})`).join(',');
    text += `    ${kind} (${key.join(', ')})${how}\n`;
  }
  return hasDifferences(diff) ? text : `${text}  nothing would change\n`;
}

export function diffJson(diff: BuildDiff): object {
  return { kind: 'diff', equal: !hasDifferences(diff), ...diff, byColumn: Object.fromEntries(diff.byColumn) };
}

export function swapText(
  kind: 'swap' | 'undo',
  { table, into, version, lsn, copiedBytes, contractChanged }: SwapResult,
): string {
  const contract = contractChanged ? '; its contract follows' : '';
  return kind === 'swap'
    ? `${table} is what ${into} was, since version ${version}, at LSN ${lsn}${contract} (${formatBytes(copiedBytes)} copied). The old rows are kept: \`sluice replay ${table} --undo\`\n`
    : `${table} is again what it was before ${into} was swapped in, and caught up to LSN ${lsn}${contract} (restored as version ${version})\n`;
}

export function estimateText(estimate: ReplayEstimate): string {
  const { table, records, bytes, batches, storeRequests, minutes, fromOffset, toOffset } = estimate;
  return `${table}: offsets ${fromOffset} to ${toOffset}, ${records} events, about ${formatBytes(bytes)} in the log, ${batches} batches, about ${storeRequests} store requests and ${minutes} minutes; nothing was done\n`;
}

export function listText(builds: readonly BuildRecord[], swaps: readonly SwapRecord[]): string {
  if (builds.length + swaps.length === 0) return 'no replay has built or switched a table\n';
  let text = '';
  for (const { table, into, from, startedAtMs, contractFile } of builds)
    text += `${into}  built from ${table} --from ${from}${contractFile === null ? '' : ` --contract ${contractFile}`}, begun ${formatTime(startedAtMs)}\n`;
  for (const { table, into, kind, phase, atMs } of swaps)
    text += `${table}  ${kind === 'swap' ? `switched to what ${into} was` : `switched back from what ${into} was`}${phase === 'begun' ? ', not finished: the service does that when it starts' : ''}, ${formatTime(atMs)}\n`;
  return text;
}
