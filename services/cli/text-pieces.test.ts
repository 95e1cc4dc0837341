import { expect, it } from 'vitest';
import { createTextPieces } from './text-pieces.ts';

it('waits for each piece before the next, and loses nothing', async () => {
  const written: number[] = [];
  let open = 0;
  const pieces = createTextPieces(async (text) => {
    expect(++open).toBe(1);
    await new Promise<void>((resolve) => setImmediate(resolve));
    open--;
    written.push(text.length);
  });
  for (let i = 0; i < 50; i++) {
    const full = pieces.add('x'.repeat(100_000));
    if (full !== null) await full;
  }
  await pieces.end();
  expect(written).toEqual([1_100_000, 1_100_000, 1_100_000, 1_100_000, 600_000]);
});
