import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../../lakehouse/store/memory-store.ts';
import { assertBuildName, assertNameFree } from './build-name.ts';

const named = (schema: string, table: string) => ({ schema, table });

describe('the name of a table that a replay builds', () => {
  it.each([
    ['public', 't__quarantine', /parked rows/],
    ['_sluice', 'checkpoints', /pipeline’s own/],
    ['public', '..', /cannot have that name/],
    ['..', 'x', /cannot have that name/],
    ['public', 'new\nline', /control character/],
    ['public', 'nul\0', /control character/],
    ['public', 'x'.repeat(64), /63 octets/],
    ['public', 'é'.repeat(32), /63 octets/],
  ])('cannot be %s.%s', (schema, table, why) => {
    expect(() => assertBuildName(named(schema, table))).toThrow(why);
  });

  it.each(['orders_new', 'Ünï côdé;{x}=1', 'a/b', "o'brien", '...', 'x'.repeat(63)])('can be %s', (table) => {
    expect(() => assertBuildName(named('public', table))).not.toThrow();
  });

  it('meets neither a table of the pipeline nor any object of the lake', async () => {
    const lake = createMemoryStore();
    await lake.put('public/files/data.csv', Buffer.from('x'));
    await lake.put('public/parked__quarantine/_delta_log/00000000000000000000.json', Buffer.from('{}'));
    const kept = [named('public', 'orders'), named('public', 'a b')];
    for (const table of ['orders', 'Orders', 'a b', 'a_b', 'a;b'])
      await expect(assertNameFree(lake, named('public', table), kept)).rejects.toMatchObject({
        code: 'REPLAY_TARGET_TAKEN',
        exit: 2,
        message: expect.stringContaining('the pipeline itself keeps'),
        // Nothing that --discard removes.
        remedy: 'choose another name for --into',
      });
    for (const table of ['files', 'parked'])
      await expect(assertNameFree(lake, named('public', table), kept)).rejects.toThrow('other files');
    await expect(assertNameFree(lake, named('public', 'file'), kept)).resolves.toBeUndefined();
    await expect(assertNameFree(lake, named('other', 'orders'), kept)).resolves.toBeUndefined();
  });
});
