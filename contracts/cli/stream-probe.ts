/**
 * Table rules on a sample of a topic. Counts are over events; UNIQUE is a promise on the table, so duplicates are counted
 * over the newest state of each key.
 */
import type { Cell, GateRow } from '../engine/gate.ts';
import { countRows } from '../engine/rules/count-rows.ts';
import { classifyTemporal, temporalMicros } from '../engine/rules/temporal.ts';
import type { TableProbe, TimeRange } from '../engine/rules/table-probe.ts';
import type { StreamSample } from './ports.ts';

export function streamProbe(sample: StreamSample, nowMicros: bigint): TableProbe {
  const { rows, keys, topic } = sample;
  let folded: GateRow[] | null = null;
  return {
    statistics: () => Promise.resolve(null),
    count: (request) => {
      if (request.kind !== 'duplicate') return Promise.resolve(countRows(request, rows));
      folded ??= newestByKey(rows, keys);
      return Promise.resolve(countRows(request, folded));
    },
    extremes: (column) => Promise.resolve(rangeOf(rows, column)),
    sql: null,
    rows: () => complete(rows),
    relation: topic,
    nowMicros,
  };
}

// oxlint-disable-next-line require-await -- the port is asynchronous; a sample is in memory
async function* complete(rows: readonly GateRow[]): AsyncGenerator<GateRow> {
  yield* rows;
}

/** Columns that an update did not carry keep the value of the event before it. */
function newestByKey(rows: readonly GateRow[], keys: readonly string[]): GateRow[] {
  const newest = new Map<string, GateRow>();
  for (const row of rows) {
    const key = JSON.stringify(keys.map((name) => keyText(row[name])));
    const state = newest.get(key) ?? {};
    for (const [name, cell] of Object.entries(row)) if (cell !== undefined) state[name] = cell;
    newest.set(key, state);
  }
  return [...newest.values()];
}

/** A key's integers come as numbers or, beyond 2^53, as bigints. */
function keyText(cell: Cell | undefined): string {
  return JSON.stringify(cell ?? null, (_key, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
}

function rangeOf(rows: readonly GateRow[], column: string): TimeRange | null {
  let range: TimeRange | null = null;
  for (const row of rows) {
    const cell = row[column];
    const micros = typeof cell === 'string' ? microsOf(cell) : null;
    if (micros === null) continue;
    range = {
      minMicros: range === null || micros < range.minMicros ? micros : range.minMicros,
      maxMicros: range === null || micros > range.maxMicros ? micros : range.maxMicros,
    };
  }
  return range;
}

const KINDS = ['timestamptz', 'timestamp', 'date'] as const;

/** Null for infinity and what is no time: it says nothing about freshness. */
function microsOf(text: string): bigint | null {
  const kind = KINDS.find((candidate) => classifyTemporal(text, candidate) === 'plain');
  return kind === undefined ? null : temporalMicros(text, kind);
}
