import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { hashShort, ONE_BLOCK_BYTES } from './short-hash.ts';

test('short messages hash as node:crypto has it, whatever stood in the scratch before', () => {
  const scratch = Buffer.alloc(64, 0xff);
  for (let length = 0; length <= ONE_BLOCK_BYTES; length++) {
    for (let turn = 0; turn < 8; turn++) {
      const message = Buffer.from(Array.from({ length }, (_, i) => (i * 37 + turn * 101 + length * 7) & 0xff));
      message.copy(scratch);
      const out = new Uint32Array(6).fill(9);
      hashShort(scratch, length, out, 1);
      const digest = createHash('sha256').update(message).digest();
      const words = [0, 4, 8, 12].map((at) => digest.readUInt32LE(at));
      expect([...out]).toEqual([9, ...words, 9]);
    }
  }
});
