import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../test/support/row-events.ts';
import { createFrameSplitter } from './wire-frames.ts';

const frames = fc.array(fc.tuple(fc.integer({ min: 65, max: 122 }), fc.uint8Array({ maxLength: 40 })), {
  maxLength: 20,
});

test('frames come out whole and in order, wherever the chunks are cut', () => {
  fc.assert(
    fc.property(frames, fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }), (sent, cuts) => {
      const bytes = Buffer.concat(
        sent.map(([tag, body]) => {
          const head = Buffer.of(tag, 0, 0, 0, 0);
          head.writeUInt32BE(body.length + 4, 1);
          return Buffer.concat([head, body]);
        }),
      );
      const seen: [number, Uint8Array][] = [];
      const splitter = createFrameSplitter((tag, from, start, end) => {
        // The head stands before the body.
        expect([from[start - 5], from.readUInt32BE(start - 4)]).toEqual([tag, end - start + 4]);
        seen.push([tag, Uint8Array.from(from.subarray(start, end))]);
      });
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const end = at + (cuts[i % cuts.length] ?? 1);
        splitter.push(Buffer.from(bytes.subarray(at, end)));
        at = end;
      }
      expect(seen).toEqual(sent);
      expect(splitter.pendingBytes).toBe(0);
    }),
    { numRuns: propertyRuns(200) },
  );
});

test('a length that no message has is no PostgreSQL', () => {
  const splitter = createFrameSplitter(() => undefined);
  splitter.push(Buffer.of(0x48, 0x54));
  expect(() => splitter.push(Buffer.from('TP/1.1 400'))).toThrow(/no PostgreSQL messages/);
});
