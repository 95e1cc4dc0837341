/** What was parked and why, counted; values stay in the quarantine tables. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { scanQuarantine } from '../../ingest/quarantine-scan.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { openTable } from '../verify-tables.ts';

export interface QuarantineReason {
  readonly table: string;
  readonly rule: string;
  readonly message: string;
  readonly rows: number;
}

export async function quarantineReasons(lake: ObjectStore, tables: readonly string[]): Promise<QuarantineReason[]> {
  const reasons: QuarantineReason[] = [];
  for (const table of tables) {
    const dot = table.indexOf('.');
    const snapshot = await openTable(lake, `${tableFolder(table.slice(0, dot), table.slice(dot + 1))}__quarantine`);
    if (snapshot === null) continue;
    const counts = new Map<string, { rule: string; message: string; rows: number }>();
    for await (const row of scanQuarantine(snapshot, { statuses: new Set(['parked']), withBytes: false })) {
      const rule = row.ruleIds[0] ?? row.codes[0] ?? 'unknown';
      const old = counts.get(rule);
      if (old === undefined) counts.set(rule, { rule, message: row.messages[0] ?? '', rows: 1 });
      else old.rows += 1;
    }
    for (const reason of counts.values()) reasons.push({ table, ...reason });
  }
  return reasons;
}
