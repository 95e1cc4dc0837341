/** Tells the running service what a comparison found: its metrics, and the table's state, are to say so. */
import { callService } from './service-client.ts';
import type { VerifySession } from './verify-session.ts';
import type { TableReport } from './verify-tables.ts';

/** `whole`: all keys were compared, so that nothing found means that nothing differs any more. */
export async function publishReport(
  session: VerifySession,
  report: TableReport,
  { url, whole }: { readonly url: string | undefined; readonly whole: boolean },
): Promise<void> {
  const { table, differences, unsettled, sourceRows } = report;
  const compared = sourceRows === 0 ? 1 : Math.max(0, sourceRows - unsettled) / sourceRows;
  const body = {
    pipeline: session.config.name,
    table,
    mismatches: differences.length,
    coverage: compared * (report.sampled ?? 1),
    whole: whole && report.sampled === null && unsettled === 0,
  };
  await callService(session.config, { path: '/control/verified', body, url });
}

/** The same, where a service may be away, or belong to others. */
export async function offerReport(
  session: VerifySession,
  report: TableReport,
  to: { readonly url: string | undefined; readonly whole: boolean },
): Promise<void> {
  await publishReport(session, report, to).catch(() => undefined);
}
