import { expect, test } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { LogOffset } from '../log/position.ts';
import { openCheckpoint } from './checkpoint.ts';
import type { BatchPlan } from './checkpoint.ts';

const plan = (batchId: bigint, to = 10n): BatchPlan => ({
  batchId,
  timestampMs: 1_700_000_000_000,
  topic: 'shop.public.t',
  from: new Map([[0, 0n as LogOffset]]),
  to: new Map([
    [0, to as LogOffset],
    [1, 9007199254740993n as LogOffset],
  ]),
  conf: { 'sluice.mark': '7', 'sluice.contract': 'ab' },
});

test('a plan comes back as it was written, with every digit of its offsets', async () => {
  const checkpoint = openCheckpoint(createMemoryStore(), 'c/q', () => 'id-1');
  await checkpoint.writePlan(plan(0n));
  expect(await checkpoint.plan(0n)).toEqual(plan(0n));
  expect(await checkpoint.latestPlan()).toEqual(plan(0n));
  expect(await checkpoint.plan(1n)).toBeNull();
});

test('the first plan of a number stands; only a replacement changes it', async () => {
  const store = createMemoryStore();
  const checkpoint = openCheckpoint(store, 'c/q', () => 'id-1');
  await checkpoint.writePlan(plan(3n));
  expect(await openCheckpoint(store, 'c/q', () => 'id-2').writePlan(plan(3n, 99n))).toEqual(plan(3n));
  await checkpoint.replacePlan(plan(3n, 99n));
  expect(await checkpoint.plan(3n)).toEqual(plan(3n, 99n));
});

test('a lost answer is settled by reading back', async () => {
  const inner = createMemoryStore();
  let lose = true;
  const store = {
    ...inner,
    uri: inner.uri,
    async putIfAbsent(key: string, body: Uint8Array) {
      const result = await inner.putIfAbsent(key, body);
      if (lose) throw new StoreError('STORE_OUTCOME_UNKNOWN', key, 'the answer was lost');
      return result;
    },
  };
  const checkpoint = openCheckpoint(store, 'c/q', () => 'id-1');
  const wanted = plan(0n);
  expect(await checkpoint.writePlan(wanted)).toBe(wanted);
  lose = false;
  expect(await checkpoint.id()).toBe('id-1');
});

test('the identity is made once', async () => {
  const store = createMemoryStore();
  expect(await openCheckpoint(store, 'c/q', () => 'id-1').id()).toBe('id-1');
  expect(await openCheckpoint(store, 'c/q', () => 'id-2').id()).toBe('id-1');
});

test('the last two batches stay', async () => {
  const checkpoint = openCheckpoint(createMemoryStore(), 'c/q', () => 'id');
  for (let id = 0n; id < 5n; id++) {
    await checkpoint.writePlan(plan(id));
    await checkpoint.writeCommit(id);
  }
  expect(await checkpoint.latestCommit()).toBe(4n);
  expect(await checkpoint.plan(3n)).not.toBeNull();
  expect(await checkpoint.plan(2n)).toBeNull();
});

test.each([
  ['v1', 'CHECKPOINT_CORRUPT'],
  ['v2\n{}\n{}', 'FORMAT_NEWER'],
  ['v1\n{"batchTimestampMs":1,"conf":{"sluice.format":"9"}}\n{"t":{"0":1}}', 'FORMAT_NEWER'],
  ['v1\n{"batchTimestampMs":1,"conf":{}}\n{"t":{"0":"x"}}', 'CHECKPOINT_CORRUPT'],
  ['', 'CHECKPOINT_CORRUPT'],
])('a plan %j is refused as %s', async (text, code) => {
  const store = createMemoryStore();
  await store.put('c/q/offsets/0', Buffer.from(text));
  await expect(openCheckpoint(store, 'c/q', () => 'id').plan(0n)).rejects.toMatchObject({ code });
});

test('a plan that another worker lets go of before it is read leaves room for ours', async () => {
  const inner = createMemoryStore();
  await openCheckpoint(inner, 'c/q', () => 'id').writePlan(plan(3n));
  const store = {
    ...inner,
    get: async (key: string) => {
      await inner.delete([key]);
      return inner.get(key);
    },
  };
  const ours = plan(3n, 99n);
  expect(await openCheckpoint(store, 'c/q', () => 'id').writePlan(ours)).toBe(ours);
  expect(await openCheckpoint(inner, 'c/q', () => 'id').plan(3n)).toEqual(ours);
});
