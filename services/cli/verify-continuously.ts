/** Walks all tables again and again within a byte rate, and tells the running service what it found, for its metrics. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TableReport } from './verify-tables.ts';
import { SluiceError } from '../runtime/errors.ts';
import { publishReport } from './publish-report.ts';
import type { VerifySession } from './verify-session.ts';

export interface ContinuousOptions {
  readonly globs: readonly string[];
  readonly bytesPerSecond: number;
  readonly url: string | undefined;
  readonly signal: AbortSignal;
  readonly onReport: (report: TableReport) => void;
  /** A table that could not be compared now; it is tried again in the next round. */
  readonly onSkipped: (table: string, error: SluiceError) => void;
}

/** Between two rounds, ms: a small source is not asked all the time. */
const ROUND_MS = 1_000;

/** Until the signal. True = no difference was found. */
export async function verifyContinuously(session: VerifySession, options: ContinuousOptions): Promise<boolean> {
  let equal = true;
  const { signal, bytesPerSecond } = options;
  for (;;) {
    for (const shape of session.tables(options.globs)) {
      if (signal.aborted) return equal;
      try {
        const report = await session.verify(shape, { bytesPerSecond });
        equal &&= report.equal;
        options.onReport(report);
        await publishReport(session, report, { url: options.url, whole: true });
      } catch (error) {
        if (signal.aborted) return equal;
        if (!(error instanceof SluiceError)) throw error;
        options.onSkipped(`${shape.schema}.${shape.table}`, error);
      }
    }
    await sleep(ROUND_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return equal;
  }
}
