import { expect, it } from 'vitest';
import { createMemoryStore } from '../../../lakehouse/store/memory-store.ts';
import type { Lsn } from '../../log/position.ts';
import type { SourceSession } from '../../reader/source.ts';
import { IDENTITY_KEY } from '../assemble/identity.ts';
import { claimAdopted, type SlotTakeOver, type TakeOver } from './take-over.ts';

it.each([
  ['its connector came back', { active: true, confirmed_flush_lsn: '0/10' }],
  ['its connector came back and went again', { active: false, confirmed_flush_lsn: '0/20' }],
  ['it was dropped', null],
])('refuses a slot that is not as it was when the lake was looked at: %s', async (_what, slot) => {
  const lake = createMemoryStore();
  const query = async () => Promise.resolve(slot === null ? [] : [{ j: JSON.stringify({ slot_name: 's', ...slot }) }]);
  const take = {
    config: { name: 'shop', source: { slot: 's', publication: 'p' } },
    lake,
    tables: [],
    failpoint: () => undefined,
  } as unknown as TakeOver;
  const at = { session: { query } as unknown as SourceSession, from: 0x10n as Lsn } as SlotTakeOver;
  await expect(claimAdopted(take, at)).rejects.toMatchObject({ code: 'ADOPT_POSITION' });
  expect(await lake.head(IDENTITY_KEY)).toBeNull();
});
