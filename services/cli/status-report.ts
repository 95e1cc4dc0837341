/** One table of states, positions and lag, from a running pipeline. `sluice status` asks the endpoint for it. */
import { formatLsn } from '../log/position.ts';
import { describeInsurance, type SlotInsurance } from '../reader/slot-insurance.ts';
import { codeOf } from '../runtime/codes.ts';
import { formatSize } from '../runtime/duration.ts';
import type { Pipeline } from './pipeline.ts';

export interface TableLine {
  readonly table: string;
  readonly state: string;
  readonly why: string | null;
  readonly remedy: string | null;
  /** Which half stands still, when `why` says so. */
  readonly stoppedAt: 'reader' | 'stream' | null;
  readonly snapshot: number | null;
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
    /** Tables that came later and wait for `sluice add`, or for their owner to publish them. */
    readonly announced: readonly string[];
  } | null;
  readonly consistent: { readonly lsn: string; readonly markSequence: number } | null;
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
            announced: reader.announced,
          },
    consistent: ingest?.consistent ?? null,
    workers: ingest?.group ?? null,
    tables: [...names].toSorted(byText).map((id) => tableLine(id, reader, ingest)),
    store: pipeline.counts,
  };
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

type Reader = ReturnType<NonNullable<Pipeline['reader']>['status']> | null;
type Ingest = ReturnType<NonNullable<Pipeline['ingest']>['status']> | null;

function tableLine(id: string, reader: Reader, ingest: Ingest): TableLine {
  const source = reader?.tables.find((table) => `${table.schema}.${table.table}` === id);
  const lake = ingest?.tables.find((table) => table.table === id);
  const refused = source?.reason ?? null;
  return {
    table: id,
    state:
      refused?.state ??
      (source?.phase === 'removed' ? 'REMOVED' : null) ??
      lake?.state ??
      (source?.phase === 'streaming' ? 'STREAMING' : (source?.phase ?? 'unknown').toUpperCase()),
    why: refused?.detail ?? lake?.message ?? null,
    remedy: refused?.remedy ?? lake?.remedy ?? null,
    stoppedAt: refused !== null ? 'reader' : lake !== undefined && lake.message !== null ? 'stream' : null,
    snapshot: source?.snapshotProgress ?? null,
    committedLsn: lake?.lsn ?? null,
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

/** The report as a person reads it. */
export function describeStatus(report: StatusReport): string {
  let text = `pipeline ${report.pipeline}\n`;
  const { reader } = report;
  if (reader !== null) {
    text += `reader ${reader.phase}: source ${reader.sourceLsn}, log ${reader.logLsn}, confirmed ${reader.confirmedLsn}, lag ${formatSize(Number(reader.lagBytes))}\n`;
    if (reader.stopped !== null)
      text += `  ${numbered(reader.stopped.state)}: ${reader.stopped.detail}\n  ${reader.stopped.remedy}\n`;
    if (reader.slot !== null) text += `  slot ${describeInsurance(reader.slot)}\n`;
    if (reader.lastError !== null) text += `  last error: ${reader.lastError}\n`;
  }
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
    if (table.why !== null) text += `  ${numbered(table.state)}: ${table.why}\n  ${table.remedy ?? ''}\n`;
  }
  return text;
}

/** `SLU-6010 SLOT_LOST`, for `sluice explain`. */
export function numbered(state: string): string {
  const found = codeOf(state);
  return found === null ? state : `${found.entry.code} ${state}`;
}
