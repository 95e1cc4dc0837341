/** The same counts over rows in memory: for the stream, whose events no SQL engine holds. */
import type { Cell, GateRow } from '../gate.ts';
import { compilePattern } from './linear-pattern.ts';
import type { CountRequest } from './table-probe.ts';

export function countRows(request: CountRequest, rows: readonly GateRow[]): bigint {
  const matches = rowMatcher(request);
  let count = 0;
  for (const row of rows) if (matches(row)) count++;
  return BigInt(count);
}

/** Whether a row is one of those that are counted; duplicates are told by the rows that came before. */
export function rowMatcher(request: CountRequest): (row: GateRow) => boolean {
  switch (request.kind) {
    case 'rows':
      return () => true;
    case 'null':
      return (row) => row[request.column] === null;
    case 'missing': {
      const listed: ReadonlySet<string> = new Set(request.values.filter((value) => value !== null).map(String));
      const nulls = request.values.includes(null);
      return (row) => {
        const cell = row[request.column];
        return cell === null ? nulls : cell !== undefined && listed.has(cellText(cell));
      };
    }
    case 'invalid':
      return invalid(request);
    case 'duplicate':
      return duplicate(request.columns);
  }
}

function invalid(request: Extract<CountRequest, { kind: 'invalid' }>): (row: GateRow) => boolean {
  const valid: ReadonlySet<string> | null =
    request.validValues === null ? null : new Set(request.validValues.map(String));
  const matches = request.pattern === null ? null : compilePattern(request.pattern);
  return (row) => {
    const cell = row[request.column];
    if (cell === null || cell === undefined) return false;
    const text = cellText(cell);
    return valid?.has(text) === false || matches?.(text) === false;
  };
}

function duplicate(columns: readonly string[]): (row: GateRow) => boolean {
  const seen = new Set<string>();
  return (row) => {
    const cells = columns.map((column) => row[column]);
    if (cells.some((cell) => cell === null || cell === undefined)) return false;
    const key = JSON.stringify(cells.map((cell) => cellText(cell ?? null)));
    const again = seen.has(key);
    seen.add(key);
    return again;
  };
}

export function cellText(cell: Cell): string {
  if (typeof cell !== 'object') return `${cell}`;
  return JSON.stringify(cell, (_key, part: unknown) => (typeof part === 'bigint' ? `${part}` : part));
}
