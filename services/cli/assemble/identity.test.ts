import { expect, it } from 'vitest';
import { createMemoryStore } from '../../../lakehouse/store/memory-store.ts';
import { IDENTITY_KEY, claimLake, readIdentity, type PipelineIdentity } from './identity.ts';

const MINE: PipelineIdentity = {
  formatVersion: 1,
  name: 'shop',
  systemIdentifier: '7300000000000000001',
  database: 'shop',
  slot: 'sluice_shop',
  epoch: 1,
  publication: 'sluice_shop',
  madePublication: true,
};

it('claims a lake once, and holds every later start to its name, database and slot', async () => {
  const lake = createMemoryStore();
  expect(await claimLake(lake, MINE)).toBe(true);
  expect(await claimLake(lake, { ...MINE, madePublication: false, systemIdentifier: '1' })).toBe(false);
  expect(await readIdentity(lake)).toEqual(MINE);
  await expect(claimLake(lake, { ...MINE, name: 'other', database: 'b' })).rejects.toMatchObject({
    code: 'PIPELINE_CHANGED',
    exit: 2,
    message: "this lake is kept by pipeline 'shop': name 'shop' -> 'other', database 'shop' -> 'b'",
    remedy: expect.stringContaining("slot 'sluice_shop' of database 'shop' would be orphaned") as unknown,
  });
});

it('refuses a pipeline.json of a newer format, and leaves it as it is', async () => {
  const lake = createMemoryStore();
  const text = JSON.stringify({ ...MINE, formatVersion: 2 });
  await lake.put(IDENTITY_KEY, Buffer.from(text));
  await expect(claimLake(lake, MINE)).rejects.toMatchObject({ code: 'FORMAT_NEWER', exit: 4 });
  expect(Buffer.from(await lake.get(IDENTITY_KEY)).toString()).toBe(text);
});
