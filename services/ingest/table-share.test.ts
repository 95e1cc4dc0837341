import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CUTS, decodeShare, encodeShare, shareOut, type WorkerClaim } from './table-share.ts';

const claim = (owned: readonly string[], known: readonly string[] = TABLES): WorkerClaim => ({
  owned,
  known,
  local: false,
});
const TABLES = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
const dataTables = (tables: readonly string[] | undefined): string[] => (tables ?? []).filter((id) => id !== CUTS);

/** Lets every worker do what its share says, and join again, until nothing moves. */
function settle(start: ReadonlyMap<string, WorkerClaim>): Map<string, readonly string[]> {
  let claims = new Map(start);
  for (let round = 0; round < 10; round++) {
    const shares = shareOut(claims);
    const next = new Map(
      [...claims].map(([id, { known, local }]) => [id, { known, local, owned: shares.get(id)?.tables ?? [] }]),
    );
    if (JSON.stringify([...next]) === JSON.stringify([...claims])) break;
    claims = next;
  }
  return new Map([...claims].map(([id, { owned }]) => [id, owned]));
}

test('one worker has every table', () => {
  expect(shareOut(new Map([['w', claim([])]])).get('w')).toEqual({
    workers: 1,
    tables: [...TABLES, CUTS],
    known: TABLES,
    refused: false,
  });
});

test('a worker that joins gets nothing that another still holds, and its share once that has let go', () => {
  const first = shareOut(
    new Map([
      ['old', claim([...TABLES, CUTS])],
      ['new', claim([])],
    ]),
  );
  expect(first.get('new')?.tables).toEqual([]);
  expect(dataTables(first.get('old')?.tables)).toHaveLength(4);
  const second = shareOut(
    new Map([
      ['old', claim(first.get('old')?.tables ?? [])],
      ['new', claim([])],
    ]),
  );
  expect(second.get('new')?.tables).toHaveLength(3);
  expect(second.get('old')?.tables).toEqual(first.get('old')?.tables);
});

test('the tables of a worker that is gone go to the others, who keep theirs', () => {
  const shares = shareOut(
    new Map([
      ['x', claim(['a', 'b'])],
      ['y', claim(['c', 'd', CUTS])],
    ]),
  );
  expect(shares.get('x')?.tables).toEqual(expect.arrayContaining(['a', 'b']));
  expect(shares.get('y')?.tables).toEqual(expect.arrayContaining(['c', 'd', CUTS]));
  expect([...dataTables(shares.get('x')?.tables), ...dataTables(shares.get('y')?.tables)].toSorted()).toEqual(TABLES);
});

test('from any claims: no table has two owners, and all come to rest evenly', () => {
  const worker = fc.record({
    owned: fc.subarray([...TABLES, CUTS]),
    known: fc.subarray(TABLES),
    local: fc.constant(false),
  });
  fc.assert(
    fc.property(fc.array(worker, { minLength: 1, maxLength: 5 }), (workers) => {
      const claims = new Map(workers.map((each, i) => [`w${i}`, each]));
      const known = new Set(workers.flatMap((each) => each.known));
      const given = [...shareOut(claims).values()].flatMap(({ tables }) => tables);
      expect(new Set(given).size).toBe(given.length);
      const settled = [...settle(claims).values()].map(dataTables);
      expect(settled.flat().toSorted()).toEqual([...known].toSorted());
      const sizes = settled.map(({ length }) => length);
      expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
    }),
  );
});

test('a newer format of another worker is refused by name', () => {
  const share = { workers: 1, tables: [], known: [], refused: false };
  expect(decodeShare(encodeShare(share))).toEqual(share);
  expect(() => decodeShare(Buffer.from('{"formatVersion":2}'))).toThrow(/format 2/);
});
