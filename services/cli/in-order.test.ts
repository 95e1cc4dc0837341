import { expect, it } from 'vitest';
import { inOrder } from './in-order.ts';

it('works at no more than so many at once, and gives the results in the order of the items', async () => {
  const open = new Map<number, () => void>();
  let most = 0;
  const work = async (item: number): Promise<string> => {
    await new Promise<void>((resolve) => void open.set(item, resolve));
    open.delete(item);
    return `r${item}`;
  };
  const given: string[] = [];
  const all = (async () => {
    for await (const [item, result] of inOrder([1, 2, 3, 4, 5], 2, work)) given.push(`${item} ${result}`);
  })();
  for (let turn = 0; turn < 20; turn++) {
    most = Math.max(most, open.size);
    open.get(Math.max(...open.keys()))?.();
    await new Promise((resolve) => void setImmediate(resolve));
  }
  await all;
  expect(most).toBe(2);
  expect(given).toEqual(['1 r1', '2 r2', '3 r3', '4 r4', '5 r5']);
});

it('throws what the first failed one threw, and leaves the failures behind it unheard', async () => {
  const given: number[] = [];
  const all = async (): Promise<void> => {
    const work = async (item: number): Promise<number> => {
      if (item > 1) throw new Error(`no ${item}`);
      return Promise.resolve(item);
    };
    for await (const [item] of inOrder([1, 2, 3], 3, work)) given.push(item);
  };
  await expect(all()).rejects.toThrow('no 2');
  expect(given).toEqual([1]);
});
