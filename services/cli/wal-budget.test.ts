import { describe, expect, it } from 'vitest';
import type { ReaderHandle } from '../reader/reader-options.ts';
import type { PostgresSource } from '../reader/source.ts';
import { parseConfig } from '../runtime/config.ts';
import { createLogger } from '../runtime/logger.ts';
import { createWalBudget } from './wal-budget.ts';

function parts(held: () => bigint) {
  const done: string[] = [];
  const reader = {
    status: () => ({ insurance: { heldBytes: held(), level: 'ok' } }),
    stop: () => {
      done.push('stop');
      return Promise.resolve();
    },
  } as unknown as ReaderHandle;
  const session = {
    query: (sql: string) => {
      done.push(sql);
      return Promise.resolve([{}]);
    },
    close: () => Promise.resolve(),
  };
  return { done, reader, source: { session: () => Promise.resolve(session) } as unknown as PostgresSource };
}

const config = (extra: string) =>
  parseConfig({ text: `source: {walBudget: 1MB${extra}}`, file: 'f', env: {}, readFile: () => '' });
const logger = createLogger({ level: 'silent', pipeline: 'p' });

describe('the WAL budget', () => {
  it('says when it is exceeded, and when it no longer is', () => {
    let held = 900_000n;
    const pipeline = parts(() => held);
    const budget = createWalBudget(pipeline, config(''), logger, () => 0);
    budget.check();
    expect(budget.exceeded()).toBeNull();
    held = 2_500_000n;
    budget.check();
    expect(budget.exceeded()).toContain('2.5 MB');
    held = 0n;
    budget.check();
    expect(budget.exceeded()).toBeNull();
    expect(pipeline.done).toEqual([]);
  });

  it('drops the slot once, after the reader has stopped, when told to', async () => {
    const pipeline = parts(() => 5_000_000n);
    const budget = createWalBudget(pipeline, config(', onExceed: drop-slot'), logger, () => 0);
    budget.check();
    budget.check();
    await new Promise((resolve) => setImmediate(resolve));
    expect(pipeline.done).toHaveLength(2);
    expect(pipeline.done[0]).toBe('stop');
    expect(pipeline.done[1]).toContain('pg_drop_replication_slot');
    expect(budget.exceeded()).toContain('walBudget');
    await expect
      .poll(() => budget.gaveUp())
      .toMatchObject({ state: 'SLOT_LOST', detail: expect.stringContaining('5.0 MB') });
  });
});
