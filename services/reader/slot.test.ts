import { expect, it } from 'vitest';
import { ReaderError } from './reader-error.ts';
import { dropSlot } from './slot.ts';
import type { SourceSession, TextRow } from './source.ts';

/** A server whose sender of the slot ends after so many looks; null = never. */
function server(looks: number | null): { readonly session: SourceSession; readonly stands: () => boolean } {
  let asked = 0;
  let stands = true;
  const active = (): boolean => looks === null || asked <= looks;
  const query = async (sql: string): Promise<readonly TextRow[]> => {
    asked++;
    if (!stands) return Promise.resolve([]);
    if (!sql.includes('pg_drop_replication_slot'))
      return Promise.resolve([{ j: JSON.stringify({ slot_name: 's', active: active() }) }]);
    if (active()) return Promise.resolve([]);
    stands = false;
    return Promise.resolve([{}]);
  };
  return { session: { query } as unknown as SourceSession, stands: () => stands };
}

it('a slot is dropped once the sender that had it has ended', async () => {
  const ending = server(3);
  expect(await dropSlot(ending.session, 's')).toBe(true);
  expect(ending.stands()).toBe(false);
  // Nothing stands there any more.
  expect(await dropSlot(ending.session, 's')).toBe(true);
});

it('a slot that is taken just as it is dropped is in use', async () => {
  const freed = server(0);
  let taken = true;
  const query = async (sql: string): Promise<readonly TextRow[]> => {
    if (!taken || !sql.includes('pg_drop_replication_slot')) return freed.session.query(sql);
    taken = false;
    return Promise.reject(new ReaderError('SLOT_IN_USE', 'replication slot "s" is active for PID 1'));
  };
  expect(await dropSlot({ query } as unknown as SourceSession, 's')).toBe(true);
});

it('a slot that stays in use is not called dropped', async () => {
  const used = server(null);
  expect(await dropSlot(used.session, 's', 100)).toBe(false);
  expect(used.stands()).toBe(true);
});
