/**
 * Verify, the smallest re-read through the running service, and verify again, until the table is equal or nothing gets better.
 * The service writes; this command only compares and asks.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TableShape } from '../log/event.ts';
import type { BackfillState } from '../replay/backfill-jobs.ts';
import { countDifferences, describePlan, planRepair, type RepairPlan } from '../replay/repair-plan.ts';
import type { Config } from '../runtime/config.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import { KEYS_PER_CALL } from './control-actions.ts';
import { offerReport } from './publish-report.ts';
import { callService, pollService } from './service-client.ts';
import type { VerifySession } from './verify-session.ts';
import type { TableReport } from './verify-tables.ts';

export interface RepairOptions {
  readonly url: string | undefined;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** One line about what is done. */
  readonly tell: (text: string) => void;
  /** A report that was made just now. */
  readonly first?: TableReport;
}

export interface RepairResult {
  readonly table: string;
  readonly equal: boolean;
  /** What was planned first. */
  readonly plan: RepairPlan;
  /** Keys that were read again or removed, and whole readings, all passes together. */
  readonly keys: number;
  readonly wholeReads: number;
  readonly report: TableReport;
}

const PASSES_MAX = 8;
const CALL_MS = 120_000;
/** Differences that one pass takes. */
export const REPAIR_VERIFY = { differencesMax: 20_000, candidatesMax: 20_000 } as const;

export async function repairTable(
  session: VerifySession,
  shape: TableShape,
  options: RepairOptions,
): Promise<RepairResult> {
  const table = `${shape.schema}.${shape.table}`;
  let report = options.first ?? (await session.verify(shape, { options: REPAIR_VERIFY }));
  const plan = planRepair(shape, report);
  let [keys, wholeReads] = [0, 0];
  options.tell(describePlan(table, plan));
  if (!options.dryRun) {
    let next = plan;
    for (let pass = 0; pass < PASSES_MAX && next.kind !== 'nothing'; pass++) {
      const before = badness(report);
      if (next.kind === 'keys') keys += await fetchKeys(session.config, table, next.keys, options.url);
      else {
        // A hashed key tells no row of the lake that the source has no more: those go by reading exactly.
        await backfill(session.config, { table, exact: report.keyReplaced === true }, options);
        wholeReads++;
      }
      report = await session.verify(shape, { options: REPAIR_VERIFY });
      const after = planRepair(shape, report);
      if (after.kind !== 'nothing') options.tell(describePlan(table, after));
      // Reading the same again would change nothing.
      if (badness(report) >= before && (next.kind === 'table' || before < REPAIR_VERIFY.differencesMax)) break;
      next = after;
    }
  }
  await offerReport(session, report, { url: options.url, whole: true });
  return { table, equal: report.equal, plan, keys, wholeReads, report };
}

function badness(report: TableReport): number {
  const { differs, missing, extra } = countDifferences(report);
  return differs + missing + extra + report.unsettled;
}

/** Removes rows of the lake that the source no longer has. Gives their number. */
export async function removeExtras(
  session: VerifySession,
  shape: TableShape,
  options: RepairOptions,
): Promise<{ readonly removed: number; readonly report: TableReport }> {
  const table = `${shape.schema}.${shape.table}`;
  let removed = 0;
  for (;;) {
    const report = await session.verify(shape, { options: REPAIR_VERIFY });
    const extra = report.differences.filter(({ kind }) => kind === 'extra');
    const plan = planRepair(shape, { ...report, differences: extra });
    if (extra.length === 0 || plan.kind !== 'keys' || options.dryRun)
      return { removed: options.dryRun ? extra.length : removed, report };
    options.tell(`${table}: removes ${extra.length} rows that the source no longer has\n`);
    const done = await fetchKeys(session.config, table, plan.keys, options.url);
    if (done === 0) return { removed, report };
    removed += done;
  }
}

/** Reads these keys again from the source; those that it does not have become deletes. Gives the rows sent. */
export async function fetchKeys(
  config: Config,
  table: string,
  keys: readonly (readonly string[])[],
  url: string | undefined,
): Promise<number> {
  let done = 0;
  for (let at = 0; at < keys.length; at += KEYS_PER_CALL) {
    const body = { table, keys: keys.slice(at, at + KEYS_PER_CALL), removeAbsent: true };
    const call = { path: '/control/fetch-keys', body, url, half: 'reader' as const, timeoutMs: CALL_MS };
    done += (await callService<{ rows: number }>(config, call)).rows;
  }
  return done;
}

const POLL_MS = 300;

export interface BackfillCall {
  readonly table: string;
  readonly where?: string | null;
  readonly rate?: number | null;
  readonly exact?: boolean;
  readonly parallel?: number;
  readonly columns?: readonly string[];
}

/** Starts a backfill and follows it to its end. @throws SluiceError when it fails */
export async function backfill(
  config: Config,
  call: BackfillCall,
  options: Pick<RepairOptions, 'url' | 'signal'> & { readonly onState?: (state: BackfillState) => void },
): Promise<BackfillState> {
  const { url, signal } = options;
  const half = 'reader' as const;
  const started = await callService<BackfillState>(config, { path: '/control/backfill', body: call, url, half });
  for (let state = started; ;) {
    options.onState?.(state);
    if (state.phase === 'failed') {
      const { message, code, remedy } = state.error ?? { message: 'it failed', code: 'FAILED', remedy: '' };
      throw new SluiceError(code, `backfill of ${state.table}: ${message}`, { exit: ExitCode.findings, remedy });
    }
    if (state.phase !== 'running' || signal.aborted) return state;
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
    const listed = await pollService<{ backfills: BackfillState[] }>(config, {
      path: '/control/backfills',
      body: {},
      url,
      half,
    });
    const found = listed.backfills.find(({ id, table }) => id === started.id && table === started.table);
    if (found === undefined)
      throw new SluiceError(
        'BACKFILL_LOST',
        `the service that ran the backfill of ${started.table} was started again`,
        {
          exit: ExitCode.findings,
          remedy: started.resumable ? 'it goes on by itself: see `sluice status`' : 'run the command again',
        },
      );
    state = found;
  }
}
