/** The quarantine's commands, given to whoever writes the tables. */
import type { QuarantineDetail } from '../ingest/quarantine-list.ts';
import type { RetryResult } from '../ingest/quarantine-retry.ts';
import type { Config } from '../runtime/config.ts';
import { withTableOwner } from './table-owner.ts';

export interface QuarantineOwner {
  show(table: string, id: string): Promise<{ readonly row: QuarantineDetail | null }>;
  retry(table: string, ids: readonly string[] | null): Promise<RetryResult>;
  drop(table: string, ids: readonly string[]): Promise<{ readonly dropped: number }>;
}

export function withQuarantineOwner<T>(
  reload: () => Config,
  url: string | undefined,
  signal: AbortSignal,
  work: (owner: QuarantineOwner) => Promise<T>,
): Promise<T> {
  return withTableOwner({ reload, url, signal }, (call) =>
    work({
      show: (table, id) => call('quarantine-show', { table, id }),
      retry: (table, ids) => call('quarantine-retry', { table, ids }),
      drop: (table, ids) => call('quarantine-drop', { table, ids }),
    }),
  );
}
