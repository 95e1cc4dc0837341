import { expect, it } from 'vitest';
import { createShapeHistory, keyOf, type BareShape } from './shapes.ts';

const bare = (key: readonly string[]): BareShape => ({
  schema: 'public',
  table: 't',
  oid: 7,
  columns: [{ name: 'id', typeOid: 23, typeModifier: -1 }],
  key,
});
const columns = (keyPosition: number) => [
  {
    name: 'id',
    typeOid: 23,
    typeModifier: -1,
    pgType: 'integer',
    baseType: null,
    kind: 'base' as const,
    enumLabels: null,
    notNull: true,
    keyPosition,
  },
];

it('a key that was gone and came back is the shape in force, after a restart, too', () => {
  const history = createShapeHistory();
  const keyed = history.add(bare(['id']), columns(1));
  const keyless = history.add(bare([]), columns(0));
  expect(history.latest('public', 't')).toBe(keyless);
  const back = history.known(bare(['id']));
  expect(back).toBe(keyed);
  expect(history.use(keyed)).toBe(true);
  expect(history.use(keyed)).toBe(false);
  expect(history.latest('public', 't')).toBe(keyed);
  // As they were noted: the first one once more, behind the second.
  const again = createShapeHistory([keyless, keyed]);
  const latest = again.latest('public', 't');
  expect(latest === null ? null : keyOf(latest)).toEqual(['id']);
  expect(again.add(bare(['other']), columns(0)).version).toBe(3);
});
