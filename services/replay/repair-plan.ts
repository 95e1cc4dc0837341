/** The smallest re-read that makes a table equal again, from what verify found. Pure. */
import type { ColumnShape, TableShape } from '../log/event.ts';
import type { TableVerification } from './verify/verify.ts';
import { splitKey } from './verify/source-snapshot.ts';

export type RepairPlan =
  | { readonly kind: 'nothing' }
  /** These keys alone: a row that is there is read again, one that is not becomes a delete. */
  | { readonly kind: 'keys'; readonly keys: readonly (readonly string[])[]; readonly counts: DifferenceCounts }
  | { readonly kind: 'table'; readonly reason: string; readonly counts: DifferenceCounts };

export interface DifferenceCounts {
  readonly differs: number;
  readonly missing: number;
  readonly extra: number;
}

/** More rows than these to read, and the whole table is read instead. */
export const REPAIR_KEYS_MAX = 10_000;

export function planRepair(shape: TableShape, found: TableVerification, keysMax = REPAIR_KEYS_MAX): RepairPlan {
  const counts = countDifferences(found);
  if (found.equal) return { kind: 'nothing' };
  if (found.lakeVersion < 0n) return { kind: 'table', reason: 'the lake has no such table', counts };
  if (found.differences.length === 0)
    return { kind: 'table', reason: `${found.unsettled} keys kept changing while they were compared`, counts };
  if (shape.columns.every(({ keyPosition }) => keyPosition === 0))
    return { kind: 'table', reason: 'it has no key, so its rows are read together', counts };
  const toRead = counts.differs + counts.missing;
  if (toRead > keysMax) return { kind: 'table', reason: `more than ${keysMax} rows are to be read`, counts };
  if (found.keyReplaced === true)
    return { kind: 'table', reason: 'its key is hashed, so that its rows cannot be asked for by key', counts };
  const keys: string[][] = [];
  for (const { key } of found.differences) {
    const cells = inputKey(shape, key);
    if (cells === null) return { kind: 'table', reason: 'its key has a type that is not read by value', counts };
    keys.push(cells);
  }
  return { kind: 'keys', keys, counts };
}

export function countDifferences({ differences }: TableVerification): DifferenceCounts {
  const counts = { differs: 0, missing: 0, extra: 0 };
  for (const { kind } of differences) counts[kind]++;
  return counts;
}

/** Key cells as PostgreSQL reads them, from verify's canonical text; null for a type that has no such text. */
export function inputKey(shape: TableShape, key: string): string[] | null {
  const columns = shape.columns
    .filter(({ keyPosition }) => keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition);
  const cells = splitKey(key);
  if (cells.length !== columns.length) return null;
  const texts: string[] = [];
  for (const [index, column] of columns.entries()) {
    const text = inputText(column, cells[index] ?? '');
    if (text === null) return null;
    texts.push(text);
  }
  return texts;
}

function inputText(column: ColumnShape, cell: string): string | null {
  if (column.kind === 'array') return null;
  const type = column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType;
  switch (type.replace(/\(.*$/, '').trim()) {
    case 'bytea':
      return `\\x${cell}`;
    // A float is shown by its bytes; as a key it is compared by them alone.
    case 'real':
    case 'double precision':
      return null;
    default:
      return cell;
  }
}

export function describePlan(table: string, plan: RepairPlan): string {
  if (plan.kind === 'nothing') return `${table}: equal, nothing to repair\n`;
  const { differs, missing, extra } = plan.counts;
  const what = `${differs} rows differ, ${missing} are missing, ${extra} are extra`;
  return plan.kind === 'keys'
    ? `${table}: ${what}; reads ${plan.keys.length} keys again\n`
    : `${table}: ${what}; reads the whole table again: ${plan.reason}\n`;
}
