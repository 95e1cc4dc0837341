/** What cannot be done to single events of a table without key: it counts equal rows, and would count them twice. */
import { StreamError } from '../stream/stream-error.ts';
import type { TablePlan } from './table-plan.ts';

/** @throws StreamError TABLE_NO_KEY */
export function refuseBag({ bag }: TablePlan, table: string, what: 'retry' | 'replay'): void {
  if (!bag) return;
  const why =
    what === 'retry'
      ? 'a parked row cannot be told from its equals, and may be gone by now'
      : 'events that were applied once would count again';
  throw new StreamError(
    'TABLE_NO_KEY',
    `${table} has no key: ${why}`,
    `read the table whole: sluice repair ${table}; parked rows are then given up by sluice quarantine drop`,
  );
}
