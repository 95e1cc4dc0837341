/**
 * What a contract would have done to the rows of the last days: the gate, compiled from it, over rows of the lake or events
 * of the log.
 * Columns that privacy changed on their way are passed over; so are columns that those rows do not have.
 */
import type { Change } from '../engine/compat/change.ts';
import { compileGate } from '../engine/compile.ts';
import type { Finding } from '../engine/finding.ts';
import { decisiveAction } from '../engine/gate.ts';
import type { GateRow } from '../engine/gate.ts';
import type { Contract, TableContract } from '../engine/model.ts';
import { spanWords } from './duration.ts';
import { findingAt } from './drift-finding.ts';
import { sourceNameOf } from './lake-drift.ts';
import type { LakeTable, StreamSample } from './ports.ts';

export interface BlastRadius {
  readonly rows: number;
  /** Rows that would not be written. */
  readonly held: number;
  /** By rule id, rows that fail it and would not be written for it. */
  readonly byRule: ReadonlyMap<string, number>;
}

/** Rows of the last days, by the source's column names; null columns: each row says itself what it carries. */
export interface RecentRows {
  readonly columns: ReadonlySet<string> | null;
  rows(columns: readonly string[]): AsyncIterable<readonly GateRow[]>;
}

export function lakeRows(lake: LakeTable, sinceMicros: bigint): RecentRows {
  return {
    columns: new Set(lake.fields.map(sourceNameOf)),
    rows: (columns) => lake.rows(columns, sinceMicros),
  };
}

/** What an event lacks beside the wanted columns is unchanged TOAST: left out of the row, and skipped by the gate. */
export function logRows(sample: StreamSample): RecentRows {
  return {
    columns: null,
    async *rows(columns) {
      await Promise.resolve();
      yield sample.rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]])));
    },
  };
}

export async function measureBlast(contract: Contract, table: TableContract, recent: RecentRows): Promise<BlastRadius> {
  const gate = compileGate(contract, null, { table: table.physicalName });
  const columns = table.columns
    .filter(({ name, piiAction }) => piiAction === null && (recent.columns?.has(name) ?? true))
    .map(({ name }) => name);
  const byRule = new Map<string, number>();
  let rows = 0;
  let held = 0;
  for await (const batch of recent.rows(columns)) {
    for (const row of batch) {
      rows++;
      // As an update: columns that the row lacks are skipped, not missed.
      const violations = gate.check('update', row);
      if (violations === null) continue;
      const counted = violations.filter(({ column }) => column === null || columns.includes(column));
      if (counted.length === 0 || decisiveAction(counted) === 'warn') continue;
      held++;
      for (const ruleId of new Set(counted.filter(({ action }) => action !== 'warn').map((item) => item.ruleId)))
        byRule.set(ruleId, (byRule.get(ruleId) ?? 0) + 1);
    }
  }
  return { rows, held, byRule };
}

/** Row counts into the findings of changes that tightened a rule; what no change explains becomes a finding of its own. */
export function withBlast(
  findings: readonly Finding[],
  changes: readonly Change[],
  blast: BlastRadius,
  contract: Contract,
  table: TableContract,
  span: string,
): Finding[] {
  const explained = new Set<string>();
  const out = findings.map((finding) => {
    const change = changes.find(
      (item) => item.code === finding.code && item.subject === finding.subject && item.message === finding.message,
    );
    const ids = change === undefined ? [] : idsOf(change, table);
    if (ids.length === 0) return finding;
    // One option has one id; of a list's two names only one is ever counted.
    const count = ids.reduce((sum, id) => sum + (blast.byRule.get(id) ?? 0), 0);
    for (const id of ids) explained.add(id);
    return { ...finding, message: `${finding.message}; ${words(count, blast, span)}` };
  });
  for (const [ruleId, count] of [...blast.byRule].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (explained.has(ruleId)) continue;
    const rule = table.rules.find(({ id }) => id === ruleId);
    const column = table.columns.find(({ name }) => ruleId.endsWith(`:${name}`));
    const path = rule?.path ?? column?.path ?? table.path;
    out.push(
      findingAt(contract, 'warning', 'BLAST_RADIUS', `${table.name}.${ruleId}`, words(count, blast, span), path),
    );
  }
  return out;
}

/** The gate names a rule by the contract's id, an option as `minimum:total`; a list of values by either. */
function idsOf(change: Change, table: TableContract): string[] {
  const column = table.columns.find(({ name }) => change.subject === `${table.name}.${name}`);
  if (change.code === 'REQUIRED') return column === undefined ? [] : [`required:${column.name}`];
  const { ruleId } = change;
  if (ruleId === undefined) return [];
  if (column === undefined) return [ruleId];
  const lists = table.rules.filter(
    (rule) => rule.kind === 'library' && rule.column === column.name && rule.validValues !== null,
  );
  return ruleId.startsWith('enum:')
    ? [ruleId, ...lists.map(({ id }) => id)]
    : [ruleId, `${ruleId}:${column.name}`, `exclusive${capital(ruleId)}:${column.name}`];
}

const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);

function words(count: number, blast: BlastRadius, span: string): string {
  const hundredths = blast.rows === 0 ? 0 : Math.round((count * 10_000) / blast.rows);
  const percent = `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, '0')}%`;
  return `${spanWords(span)}: ${thousands(count)} of ${thousands(blast.rows)} rows (${percent}) would be quarantined`;
}

const thousands = (count: number): string => String(count).replaceAll(/\B(?=(\d{3})+$)/g, ',');
