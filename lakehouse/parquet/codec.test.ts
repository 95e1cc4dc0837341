import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PageFault, snappyDecompress } from './codec.ts';

/** A stream of one literal and copies (how far back, how many bytes), and what it stands for, byte by byte. */
function composed(literal: Uint8Array, copies: readonly (readonly [number, number])[]): [Uint8Array, Uint8Array] {
  const plain = [...literal];
  const packed = [(literal.length - 1) << 2, ...literal];
  for (const [back, length] of copies) {
    const offset = 1 + (back % plain.length);
    if (length >= 4 && length < 12 && offset < 2048)
      packed.push(1 | ((length - 4) << 2) | ((offset >> 8) << 5), offset & 255);
    else packed.push(2 | ((length - 1) << 2), offset & 255, offset >> 8);
    for (let i = 0; i < length; i++) plain.push(plain[plain.length - offset] as number);
  }
  const size = plain.length;
  const head = size < 128 ? [size] : size < 16_384 ? [(size & 127) | 128, size >> 7] : [];
  return [Uint8Array.from([...head, ...packed]), Uint8Array.from(plain)];
}
const streams = fc.tuple(
  fc.uint8Array({ minLength: 1, maxLength: 60 }),
  fc.array(fc.tuple(fc.nat(3_000), fc.integer({ min: 1, max: 64 })), { maxLength: 100 }),
);

test('a snappy copy repeats its own output, whatever its distance and length', () => {
  fc.assert(
    fc.property(streams, ([literal, copies]) => {
      const [packed, plain] = composed(literal, copies);
      expect(snappyDecompress(packed, plain.length)).toEqual(plain);
    }),
  );
});

test('a snappy page cut anywhere is a fault', () => {
  fc.assert(
    fc.property(streams, fc.nat(), ([literal, copies], at) => {
      const [packed, plain] = composed(literal, copies);
      const cut = packed.subarray(0, at % packed.length);
      expect(() => snappyDecompress(cut, plain.length)).toThrow(PageFault);
    }),
  );
});
