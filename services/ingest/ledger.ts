/**
 * The ledger (DESIGN invariant 5): every event that was read, and what became of it. It is committed with the batch; a
 * ledger that does not add up fails the batch before the table commits.
 */
import { StreamError } from '../stream/stream-error.ts';

export interface Ledger {
  /** Records read from the planned ranges. */
  readonly read: number;
  /** Records of earlier batches that had awaited a base and were taken up again. */
  readonly carriedIn: number;
  /** Events that decided a row: written or deleted. */
  readonly applied: number;
  /** Events folded into a newer one of their key, or taken by a truncate. */
  readonly folded: number;
  /** The same position again within the batch. */
  readonly duplicates: number;
  /** Older than the table's row or fence, or than an event of the batch. */
  readonly stale: number;
  /** Deletes of absent keys, tombstones, truncates, messages. */
  readonly noop: number;
  readonly awaiting: number;
  readonly quarantined: number;
  /** By a rule with action `drop`. */
  readonly dropped: number;
}

const OUT = ['applied', 'folded', 'duplicates', 'stale', 'noop', 'awaiting', 'quarantined', 'dropped'] as const;

export const LEDGER_FIELDS = ['read', 'carriedIn', ...OUT] as const satisfies readonly (keyof Ledger)[];

/** @throws StreamError LEDGER_MISMATCH */
export function checkLedger(ledger: Ledger, what: string): void {
  let out = 0;
  for (const field of OUT) out += ledger[field];
  const negative = LEDGER_FIELDS.find((field) => ledger[field] < 0);
  if (out === ledger.read + ledger.carriedIn && negative === undefined) return;
  throw new StreamError(
    'LEDGER_MISMATCH',
    `${what}: ${ledger.read} events read and ${ledger.carriedIn} carried in, but ${out} accounted for (${ledgerText(ledger)})`,
    'this is a fault of the program: keep the log, report the line, and restart; the batch was not committed',
  );
}

export function ledgerText(ledger: Ledger): string {
  return LEDGER_FIELDS.map((field) => `${field}=${ledger[field]}`).join(' ');
}

export function addLedgers(a: Ledger, b: Ledger): Ledger {
  return {
    read: a.read + b.read,
    carriedIn: a.carriedIn + b.carriedIn,
    applied: a.applied + b.applied,
    folded: a.folded + b.folded,
    duplicates: a.duplicates + b.duplicates,
    stale: a.stale + b.stale,
    noop: a.noop + b.noop,
    awaiting: a.awaiting + b.awaiting,
    quarantined: a.quarantined + b.quarantined,
    dropped: a.dropped + b.dropped,
  };
}

export const EMPTY_LEDGER: Ledger = {
  read: 0,
  carriedIn: 0,
  applied: 0,
  folded: 0,
  duplicates: 0,
  stale: 0,
  noop: 0,
  awaiting: 0,
  quarantined: 0,
  dropped: 0,
};
