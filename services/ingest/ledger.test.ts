import { expect, test } from 'vitest';
import { EMPTY_LEDGER, addLedgers, checkLedger } from './ledger.ts';

test('a ledger that adds up passes, one that does not fails the batch by name', () => {
  const good = { ...EMPTY_LEDGER, read: 5, carriedIn: 1, applied: 2, folded: 1, stale: 1, awaiting: 1, quarantined: 1 };
  expect(() => checkLedger(good, 't')).not.toThrow();
  expect(() => checkLedger({ ...good, applied: 1 }, 't')).toThrow(expect.objectContaining({ code: 'LEDGER_MISMATCH' }));
  expect(() => checkLedger({ ...good, applied: 4, folded: -1 }, 't')).toThrow(/t: 5 events read/);
});

test('totals are sums', () => {
  const one = { ...EMPTY_LEDGER, read: 2, applied: 2 };
  expect(addLedgers(one, one)).toEqual({ ...EMPTY_LEDGER, read: 4, applied: 4 });
});
