import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FileNode } from './footer.ts';
import { gatherValues } from './leaf-values.ts';
import { pickPlain, plainValues } from './plain.ts';

const VALUES = 200;
const leaf = (type: FileNode['element']['type'], type_length?: number): FileNode => ({
  name: 'v',
  element: {
    name: 'v',
    ...(type === undefined ? {} : { type }),
    ...(type_length === undefined ? {} : { type_length }),
  },
  children: [],
  maxDef: 0,
  maxRep: 0,
  firstLeaf: 0,
});

test.each([
  ['BOOLEAN', undefined],
  ['INT32', undefined],
  ['INT64', undefined],
  ['INT96', undefined],
  ['FLOAT', undefined],
  ['DOUBLE', undefined],
  ['FIXED_LEN_BYTE_ARRAY', 5],
] as const)('picked values of %s are those of the whole page, few of them or nearly all', (type, width) => {
  const node = leaf(type, width);
  const few = fc.uniqueArray(fc.nat(VALUES - 1), { minLength: 1, maxLength: 9 });
  const most = fc
    .uniqueArray(fc.nat(VALUES - 1), { maxLength: 20 })
    .map((gone) => Array.from({ length: VALUES }, (_, i) => i).filter((i) => !gone.includes(i)));
  fc.assert(
    fc.property(
      fc.oneof(few, most),
      fc.uint8Array({ minLength: VALUES * 12, maxLength: VALUES * 12 }),
      (rows, bytes) => {
        const picks = Int32Array.from(rows).sort();
        const whole = plainValues({ bytes, pos: 0 }, VALUES, node);
        expect(pickPlain({ bytes, pos: 0 }, picks, node)).toEqual(gatherValues(whole, picks));
      },
    ),
    { numRuns: 30 },
  );
});
