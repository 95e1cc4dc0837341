/** Waits until the lake holds everything up to an LSN: by asking the running service, else by reading `consistent.json`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError, type ObjectStore } from '../../lakehouse/store/store.ts';
import { CONSISTENT_KEY } from '../ingest/consistent.ts';
import { formatLsn, parseLsn } from '../log/position.ts';
import type { Config } from '../runtime/config.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';
import { fetchStatus } from './commands/status.ts';

const WAIT_MS = 120_000;
const POLL_MS = 200;

/** `table`: only that one (`schema.table`) must be there; null = all that move. */
export function lakeReaches(
  config: Config,
  lake: ObjectStore,
  signal: AbortSignal,
  table: string | null = null,
): (lsn: bigint) => Promise<void> {
  return async (lsn) => {
    const deadline = Date.now() + WAIT_MS;
    let newest = 0n;
    for (;;) {
      newest = (await byService(config, table)) ?? (await byFile(lake)) ?? newest;
      if (newest >= lsn) return;
      if (signal.aborted || Date.now() > deadline) break;
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

/** Slowest table of the running service; null when none answers. */
async function byService(config: Config, only: string | null): Promise<bigint | null> {
  try {
    const report = await fetchStatus(config, undefined);
    if (report.pipeline !== config.name) return null;
    const moving = report.tables.filter(
      (table) => table.why === null && table.committedLsn !== null && (only === null || table.table === only),
    );
    const positions = moving.map((table) => parseLsn(table.committedLsn ?? '0/0'));
    return positions.length === 0 ? null : positions.reduce((a, b) => (b < a ? b : a));
  } catch {
    return null; // no service here: the file in the lake says how far it is
  }
}

async function byFile(lake: ObjectStore): Promise<bigint | null> {
  try {
    const { lsn } = JSON.parse(Buffer.from(await lake.get(CONSISTENT_KEY)).toString('utf8')) as { lsn?: string };
    return lsn === undefined ? null : parseLsn(lsn);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') return null;
    throw error;
  }
}
