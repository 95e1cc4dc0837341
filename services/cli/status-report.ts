/** One table of states, positions and lag, from a running pipeline. `sluice status` asks the endpoint for it. */
import { formatLsn } from '../log/position.ts';
import { describeInsurance, type SlotInsurance } from '../reader/slot-insurance.ts';
import { codeOf } from '../runtime/codes.ts';
import { formatSize } from '../runtime/duration.ts';
import { differenceFound, passingTrouble, type Trouble } from './passing-trouble.ts';
import type { Pipeline } from './pipeline.ts';

export interface TableLine {
  readonly table: string;
  readonly state: string;
  readonly why: string | null;
  readonly remedy: string | null;
  /** Which half stands still, when `why` says so. */
  readonly stoppedAt: 'reader' | 'stream' | null;
  /** What hangs and is tried again, or was found by verify; the table is not stopped by it. `state` has its name. */
  readonly trouble: Trouble | null;
  readonly snapshot: number | null;
  /** Null also while the table has nothing yet of the history that the reader is in. */
  readonly committedLsn: string | null;
  readonly version: string | null;
  readonly batchId: string | null;
  readonly lagRecords: string;
  readonly lagBytes: string;
  readonly lagSeconds: number;
  readonly quarantined: number;
  readonly staleKeys: number;
  readonly lastBatch: { readonly rows: number; readonly bytesWritten: number } | null;
}

export interface StatusReport {
  readonly schemaVersion: 1;
  readonly pipeline: string;
  readonly reader: {
    readonly phase: string;
    readonly stopped: { readonly state: string; readonly detail: string; readonly remedy: string } | null;
    readonly sourceLsn: string;
    readonly receivedLsn: string;
    readonly logLsn: string;
    readonly confirmedLsn: string;
    readonly lagBytes: string;
    readonly lagMs: number;
    readonly slot: SlotInsurance | null;
    readonly lastError: string | null;
    /** Why nothing moves at this moment, where it has a name: it goes on by itself. */
    readonly trouble: Trouble | null;
    /** Tables that came later and wait for `sluice add`, or for their owner to publish them. */
    readonly announced: readonly string[];
  } | null;
  readonly consistent: { readonly lsn: string; readonly markSequence: number } | null;
  /** The stream as a whole: the log, or the lake under what belongs to no table. */
  readonly stream: { readonly trouble: Trouble | null } | null;
  /** Null: one process has every table. */
  readonly workers: {
    readonly workers: number;
    readonly tables: number;
    readonly of: number;
    readonly writesConsistent: boolean;
  } | null;
  readonly tables: readonly TableLine[];
  readonly store: { readonly requests: number; readonly sentBytes: number; readonly receivedBytes: number };
}

export function statusReport(pipeline: Pipeline, name: string): StatusReport {
  const reader = pipeline.reader?.status() ?? null;
  const ingest = pipeline.ingest?.status() ?? null;
  const names = new Set([
    ...(ingest?.tables.map((table) => table.table) ?? []),
    ...(reader?.tables.map((table) => `${table.schema}.${table.table}`) ?? []),
  ]);
  return {
    schemaVersion: 1,
    pipeline: name,
    reader:
      reader === null
        ? null
        : {
            phase: reader.phase,
            stopped: reader.stopped,
            sourceLsn: formatLsn(reader.sourceLsn),
            receivedLsn: formatLsn(reader.receivedLsn),
            logLsn: formatLsn(reader.durableLsn),
            confirmedLsn: formatLsn(reader.confirmedLsn),
            lagBytes: reader.lagBytes.toString(),
            lagMs: reader.lagMs,
            slot: reader.insurance,
            lastError: reader.lastError,
            trouble: reader.failing === null ? null : passingTrouble(reader.failing.code, reader.failing.message),
            announced: reader.announced,
          },
    consistent: ingest?.consistent ?? null,
    stream: ingest === null ? null : { trouble: pipeline.feedTrouble() },
    workers: ingest?.group ?? null,
    tables: [...names].toSorted(byText).map((id) => tableLine(id, reader, ingest, pipeline.verified)),
    store: pipeline.counts,
  };
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

type Reader = ReturnType<NonNullable<Pipeline['reader']>['status']> | null;
type Ingest = ReturnType<NonNullable<Pipeline['ingest']>['status']> | null;

/** An LSN of an older history says nothing of how far the table is in this one. */
const isOfNow = (epoch: number | null, reader: Reader): boolean =>
  reader === null || epoch === null || epoch >= reader.epoch;

function tableLine(id: string, reader: Reader, ingest: Ingest, verified: Pipeline['verified']): TableLine {
  const source = reader?.tables.find((table) => `${table.schema}.${table.table}` === id);
  const lake = ingest?.tables.find((table) => table.table === id);
  const refused = source?.reason ?? null;
  const state =
    refused?.state ??
    (source?.phase === 'removed' ? 'REMOVED' : null) ??
    lake?.state ??
    (source?.phase === 'streaming' ? 'STREAMING' : (source?.phase ?? 'unknown').toUpperCase());
  const moves = state === 'STREAMING' || state === 'SNAPSHOTTING';
  const trouble = moves ? troubleOf(id, lake, verified) : null;
  return {
    table: id,
    state: trouble?.state ?? state,
    why: refused?.detail ?? lake?.message ?? null,
    remedy: refused?.remedy ?? lake?.remedy ?? null,
    trouble,
    stoppedAt: refused !== null ? 'reader' : lake !== undefined && lake.message !== null ? 'stream' : null,
    snapshot: source?.snapshotProgress ?? null,
    committedLsn: isOfNow(lake?.epoch ?? null, reader) ? (lake?.lsn ?? null) : null,
    version: lake?.version?.toString() ?? null,
    batchId: lake?.batchId?.toString() ?? null,
    lagRecords: (lake?.lagRecords ?? 0n).toString(),
    lagBytes: (lake?.lagBytes ?? 0n).toString(),
    lagSeconds: lake?.lagSeconds ?? 0,
    quarantined: lake?.ledger.quarantined ?? 0,
    staleKeys: lake?.staleKeys ?? 0,
    lastBatch:
      lake?.lastBatch === null || lake === undefined
        ? null
        : { rows: lake.lastBatch.rows, bytesWritten: lake.lastBatch.bytesWritten },
  };
}

function troubleOf(
  id: string,
  lake: NonNullable<Ingest>['tables'][number] | undefined,
  verified: Pipeline['verified'],
): Trouble | null {
  const retried = lake?.retrying ?? null;
  const passing = retried === null ? null : passingTrouble(retried, lake?.retryingWhy ?? '');
  if (passing !== null) return passing;
  const found = verified.get(id);
  return found === undefined ? null : differenceFound(id, found.mismatches, found.atMs);
}

/** The report as a person reads it. */
export function describeStatus(report: StatusReport): string {
  let text = `pipeline ${report.pipeline}\n`;
  const { reader } = report;
  if (reader !== null) {
    const away = reader.phase === 'reconnecting';
    const lag = away ? 'lag not known' : `lag ${formatSize(Number(reader.lagBytes))}`;
    text += `reader ${reader.phase}: source ${reader.sourceLsn}${away ? ' when last seen' : ''}, log ${reader.logLsn}, confirmed ${reader.confirmedLsn}, ${lag}\n`;
    if (reader.stopped !== null)
      text += `  ${numbered(reader.stopped.state)}: ${reader.stopped.detail}\n  ${reader.stopped.remedy}\n`;
    text += describeTrouble(reader.trouble);
    if (reader.slot !== null) text += `  slot ${describeInsurance(reader.slot)}\n`;
    // Of one that has passed only --json tells.
    if (reader.lastError !== null && reader.trouble === null && reader.phase !== 'streaming')
      text += `  last error: ${reader.lastError}\n`;
  }
  text += describeTrouble(report.stream?.trouble ?? null);
  for (const table of report.reader?.announced ?? [])
    text += `${table} is new and not followed: \`sluice add ${table}\`\n`;
  if (report.consistent !== null) text += `consistent at ${report.consistent.lsn}\n`;
  if (report.workers !== null && report.workers.workers > 1)
    text += `${report.workers.workers} workers; this one has ${report.workers.tables} of ${report.workers.of} tables\n`;
  for (const table of report.tables) {
    const progress = table.snapshot === null ? '' : ` ${Math.round(table.snapshot * 100)}%`;
    const last = table.lastBatch === null ? '' : `, last batch ${table.lastBatch.rows} rows`;
    text += `${table.table}  ${table.state}${progress}  version ${table.version ?? '-'}  at ${table.committedLsn ?? '-'}  lag ${formatSize(Number(table.lagBytes))} ${table.lagSeconds} s${last}\n`;
    if (table.quarantined > 0)
      text += `  ${table.quarantined} quarantined in this run, ${table.staleKeys} keys stale\n`;
    text += describeTrouble(table.trouble);
    if (table.why !== null) text += `  ${numbered(table.state)}: ${table.why}\n  ${table.remedy ?? ''}\n`;
  }
  return text;
}

function describeTrouble(trouble: Trouble | null): string {
  return trouble === null ? '' : `  ${numbered(trouble.state)}: ${trouble.detail}\n  ${trouble.remedy}\n`;
}

/** Everything that hangs by a name, the tables' too. */
export function troublesOf(report: StatusReport): readonly string[] {
  const all = [report.reader?.trouble, report.stream?.trouble, ...report.tables.map(({ trouble }) => trouble)];
  return all.flatMap((trouble) => (trouble == null ? [] : [trouble.state]));
}

/** `SLU-6010 SLOT_LOST`, for `sluice explain`. */
export function numbered(state: string): string {
  const found = codeOf(state);
  return found === null ? state : `${found.entry.code} ${state}`;
}
