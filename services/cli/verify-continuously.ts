/** Walks all tables again and again within a byte rate, and tells the running service what it found, for its metrics. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TableReport } from './verify-tables.ts';
import { SluiceError } from '../runtime/errors.ts';
import { explainFailure } from './explain-failure.ts';
import { publishReport } from './publish-report.ts';
import type { VerifySession } from './verify-session.ts';

export interface ContinuousOptions {
  readonly globs: readonly string[];
  readonly bytesPerSecond: number;
  readonly url: string | undefined;
  readonly signal: AbortSignal;
  readonly onReport: (report: TableReport) => void;
  /** A table that could not be compared now; it is tried again in the next round. */
  readonly onSkipped: (table: string, error: unknown) => void;
}

/** Between two rounds, ms: a small source is not asked all the time. */
const ROUND_MS = 1_000;
/** The same while nothing can be compared at all. */
const IDLE_MS = 60_000;

/** Until the signal. True = no difference was found. */
export async function verifyContinuously(session: VerifySession, options: ContinuousOptions): Promise<boolean> {
  let equal = true;
  let waitMs = ROUND_MS;
  const { signal, bytesPerSecond } = options;
  for (;;) {
    let compared = false;
    // Tables come and go, and columns with them; while the log does not answer, those that are known are compared.
    await session.refresh().catch((error: unknown) => options.onSkipped('tables of the log', error));
    for (const shape of session.tables(options.globs)) {
      if (signal.aborted) return equal;
      try {
        const report = await session.verify(shape, { bytesPerSecond });
        compared = true;
        equal &&= report.equal;
        options.onReport(report);
        await publishReport(session, report, { url: options.url, whole: true });
      } catch (error) {
        if (signal.aborted) return equal;
        // What has no name is a fault of this program.
        if (!(error instanceof SluiceError) && explainFailure(error).code === null) throw error;
        options.onSkipped(`${shape.schema}.${shape.table}`, error);
      }
    }
    waitMs = compared ? ROUND_MS : Math.min(2 * waitMs, IDLE_MS);
    await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return equal;
  }
}
