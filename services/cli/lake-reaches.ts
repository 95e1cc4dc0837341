/** Waits until the lake holds everything up to an LSN: by asking the running service, else by reading `consistent.json`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { getText } from '../../lakehouse/store/get-text.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { CONSISTENT_KEY } from '../ingest/consistent.ts';
import { formatLsn, parseLsn } from '../log/position.ts';
import type { Config } from '../runtime/config.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import { fetchStatus } from './commands/status.ts';
import { nobodyServes } from './service-client.ts';
import type { StatusReport, TableLine } from './status-report.ts';

const WAIT_MS = 120_000;
const POLL_MS = 200;
/** The file is written once a second of the reader's clock: a mark that came too early in it gives no cut, a later one does. */
const ASK_EVERY_MS = 1100;

/**
 * `table`: only that one (`schema.table`) must be there; null = all that move. `askForMark` makes an idle reader write a mark,
 * which would else come every ten seconds.
 */
export function lakeReaches(
  { config, lake, askForMark }: LakeReachesPorts,
  signal: AbortSignal,
  table: string | null = null,
): (lsn: bigint) => Promise<void> {
  return async (lsn) => {
    const deadline = Date.now() + WAIT_MS;
    let newest = 0n;
    let askAt = Date.now() + ASK_EVERY_MS;
    let heard = false;
    for (;;) {
      const served = await byService(config, table, heard);
      heard ||= served !== null;
      newest = served ?? (await byFile(lake, table)) ?? newest;
      if (newest >= lsn) return;
      if (signal.aborted || Date.now() > deadline) break;
      if (served === null && Date.now() >= askAt) {
        askAt = Date.now() + ASK_EVERY_MS;
        // Only to be told sooner: a source that does not answer shows where it is read.
        await askForMark().catch(() => undefined);
      }
      await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
    }
    throw new SluiceError(
      'LAKE_BEHIND',
      `the lake stands at ${formatLsn(newest)} and does not reach ${formatLsn(lsn)}`,
      {
        exit: ExitCode.environment,
        remedy: 'verify needs the pipeline running beside it: start `sluice run`, look at `sluice status`',
      },
    );
  };
}

export interface LakeReachesPorts {
  readonly config: Config;
  readonly lake: ObjectStore;
  readonly askForMark: () => Promise<unknown>;
}

/**
 * Slowest table of the running service; null when none answers.
 * @throws SluiceError TABLE_STANDS_STILL when the one that is asked for does not move
 */
async function byService(config: Config, only: string | null, heard: boolean): Promise<bigint | null> {
  let report: StatusReport;
  try {
    report = await fetchStatus(config, undefined);
  } catch (error) {
    // No service here: the file in the lake says how far it is. Not so where one answered, and is busy just now.
    return heard && !nobodyServes(error) ? 0n : null;
  }
  if (report.pipeline !== config.name) return null;
  const asked = report.tables.filter(({ table }) => only === null || table === only);
  const still = asked.find((line) => !moves(line) || line.state === 'PAUSED');
  if (only !== null && still !== undefined) throw standsStill(only, still.state, still.why, still.remedy);
  // The file would tell of an older history, whose numbers may be higher.
  if (asked.some((line) => moves(line) && line.committedLsn === null && line.batchId !== null)) return 0n;
  // Its rows are still coming: what is not there yet is no difference.
  if (asked.some(({ why, state }) => why === null && state === 'SNAPSHOTTING')) return null;
  const positions = asked
    .filter((line) => moves(line) && line.committedLsn !== null)
    .map(({ committedLsn }) => parseLsn(committedLsn ?? '0/0'));
  return positions.length === 0 ? null : positions.reduce((a, b) => (b < a ? b : a));
}

/**
 * A table that the publication has left out takes no more events, but its position goes on: what it lacks is there to be
 * compared.
 */
function moves({ why, state }: TableLine): boolean {
  return why === null || state === 'PUBLICATION_CHANGED';
}

async function byFile(lake: ObjectStore, only: string | null): Promise<bigint | null> {
  const text = await getText(lake, CONSISTENT_KEY);
  if (text === null) return null;
  const { lsn, left } = JSON.parse(text) as { lsn?: string; left?: readonly string[] };
  if (only !== null && left?.includes(only) === true) throw standsStill(only, 'left out', null, null);
  return lsn === undefined ? null : parseLsn(lsn);
}

function standsStill(table: string, state: string, why: string | null, remedy: string | null): SluiceError {
  const detail = why === null ? '' : `: ${why}`;
  return new SluiceError('TABLE_STANDS_STILL', `${table} stands still (${state})${detail}`, {
    exit: ExitCode.namedState,
    remedy: remedy ?? `sluice resume ${table}`,
  });
}
