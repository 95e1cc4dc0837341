import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CellKind, type Tuple } from '../../log/tuple.ts';
import { createPgoutputDecoder } from './decode.ts';
import type { PgoutputMessage, RelationMessage } from './messages.ts';

const numRuns = Number(process.env['SLUICE_TEST_RUNS'] ?? '1') * 60;

type Cell = string | null | undefined;

const u8 = (value: number) => Buffer.from([value]);
const u16 = (value: number) => Buffer.from([value >> 8, value & 255]);
const u32 = (value: number) => {
  const out = Buffer.alloc(4);
  out.writeUInt32BE(value >>> 0);
  return out;
};
const u64 = (value: bigint) => {
  const out = Buffer.alloc(8);
  out.writeBigUInt64BE(BigInt.asUintN(64, value));
  return out;
};
const str = (text: string) => Buffer.concat([Buffer.from(text, 'utf8'), u8(0)]);
const tag = (letter: string) => u8(letter.charCodeAt(0));
const cells = (row: readonly Cell[]) =>
  Buffer.concat([
    u16(row.length),
    ...row.flatMap((cell) => {
      if (cell === null) return [tag('n')];
      if (cell === undefined) return [tag('u')];
      const text = Buffer.from(cell, 'utf8');
      return [tag('t'), u32(text.length), text];
    }),
  ]);

interface Definition {
  readonly oid: number;
  readonly schema: string;
  readonly table: string;
  readonly columns: readonly { name: string; typeOid: number; typeModifier: number; inKey: boolean }[];
}
const relationBytes = (definition: Definition, xid?: number) =>
  Buffer.concat([
    tag('R'),
    ...(xid === undefined ? [] : [u32(xid)]),
    u32(definition.oid),
    str(definition.schema),
    str(definition.table),
    tag('d'),
    u16(definition.columns.length),
    ...definition.columns.flatMap((column) => [
      u8(column.inKey ? 1 : 0),
      str(column.name),
      u32(column.typeOid),
      u32(column.typeModifier),
    ]),
  ]);

const rowOf = (tuple: Tuple, columns: number): Cell[] =>
  Array.from({ length: columns }, (_, i) => {
    if (tuple.kinds[i] === CellKind.null) return null;
    if (tuple.kinds[i] === CellKind.unchanged) return undefined;
    return tuple.bytes.toString('utf8', tuple.starts[i], tuple.ends[i]);
  });

const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).filter((text) => !text.includes('\0'));
const definition: fc.Arbitrary<Definition> = fc.record({
  oid: fc.integer({ min: 1, max: 0xffff_ffff }),
  schema: name,
  table: name,
  columns: fc.array(
    fc.record({
      name,
      typeOid: fc.integer({ min: 0, max: 0xffff_ffff }),
      typeModifier: fc.integer({ min: -1, max: 0x7fff_ffff }),
      inKey: fc.boolean(),
    }),
    { minLength: 1, maxLength: 8 },
  ),
});
const rowFor = (columns: number, unchanged: boolean) =>
  fc.array(
    unchanged
      ? fc.oneof(fc.string({ unit: 'binary' }), fc.constant(null), fc.constant(undefined))
      : fc.oneof(fc.string({ unit: 'binary' }), fc.constant(null)),
    { minLength: columns, maxLength: columns },
  );

/** Puts the message between other bytes, as it lies in a socket's buffer. */
function decodeIn(decoder: ReturnType<typeof createPgoutputDecoder>, message: Buffer): PgoutputMessage {
  const framed = Buffer.concat([Buffer.from('before'), message, Buffer.from('behind')]);
  return decoder.decode(framed, 6, 6 + message.length);
}

const SIMPLE: Definition = {
  oid: 16_400,
  schema: 'public',
  table: 't',
  columns: [
    { name: 'id', typeOid: 20, typeModifier: -1, inKey: true },
    { name: 'v', typeOid: 25, typeModifier: -1, inKey: false },
  ],
};

describe('pgoutput decoder', () => {
  it('returns what the encoder was given, for every row message', () => {
    const scenario = definition.chain((table) =>
      fc.tuple(
        fc.constant(table),
        rowFor(table.columns.length, false),
        rowFor(table.columns.length, false),
        rowFor(table.columns.length, true),
        fc.constantFrom('K', 'O', ''),
        fc.option(fc.integer({ min: 1, max: 0xffff_ffff }), { nil: undefined }),
      ),
    );
    fc.assert(
      fc.property(scenario, ([table, inserted, old, updated, letter, xid]) => {
        const decoder = createPgoutputDecoder();
        const inStream = xid === undefined ? [] : [u32(xid)];
        if (xid !== undefined) decodeIn(decoder, Buffer.concat([tag('S'), u32(xid), u8(1)]));
        const columns = table.columns.length;
        const relation = decodeIn(decoder, relationBytes(table, xid)) as RelationMessage;
        expect(relation).toMatchObject({ ...table, tag: 'relation', replicaIdentity: 'd', streamXid: xid ?? 0 });

        const insert = decodeIn(
          decoder,
          Buffer.concat([tag('I'), ...inStream, u32(table.oid), tag('N'), cells(inserted)]),
        );
        if (insert.tag !== 'insert') throw new Error('not an insert');
        expect(rowOf(insert.after, columns)).toEqual(inserted);

        const oldPart = letter === '' ? [] : [tag(letter), cells(old)];
        const update = decodeIn(
          decoder,
          Buffer.concat([tag('U'), ...inStream, u32(table.oid), ...oldPart, tag('N'), cells(updated)]),
        );
        if (update.tag !== 'update') throw new Error('not an update');
        expect(update.beforeKind).toBe(letter === '' ? 'none' : letter === 'K' ? 'key' : 'row');
        if (letter !== '') expect(rowOf(update.before, columns)).toEqual(old);
        expect(rowOf(update.after, columns)).toEqual(updated);

        const remove = decodeIn(decoder, Buffer.concat([tag('D'), ...inStream, u32(table.oid), tag('O'), cells(old)]));
        if (remove.tag !== 'delete') throw new Error('not a delete');
        expect(rowOf(remove.before, columns)).toEqual(old);
        expect(remove.beforeKind).toBe('row');
      }),
      { numRuns },
    );
  });

  it('keeps all 64 bits of LSNs and times', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
        fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }),
        (lsn, time) => {
          const decoder = createPgoutputDecoder();
          expect(decodeIn(decoder, Buffer.concat([tag('B'), u64(lsn), u64(time), u32(7)]))).toEqual({
            tag: 'begin',
            finalLsn: lsn,
            commitTime: time,
            xid: 7,
          });
          expect(decodeIn(decoder, Buffer.concat([tag('C'), u8(0), u64(lsn), u64(lsn), u64(time)]))).toEqual({
            tag: 'commit',
            commitLsn: lsn,
            endLsn: lsn,
            commitTime: time,
          });
        },
      ),
      { numRuns },
    );
  });

  it('decodes origins, types, truncates, logical messages and two-phase messages', () => {
    const decoder = createPgoutputDecoder();
    expect(decodeIn(decoder, Buffer.concat([tag('O'), u64(5n), str('peer')]))).toEqual({
      tag: 'origin',
      originLsn: 5n,
      name: 'peer',
    });
    expect(decodeIn(decoder, Buffer.concat([tag('Y'), u32(9), str('s'), str('mood')]))).toEqual({
      tag: 'type',
      streamXid: 0,
      oid: 9,
      schema: 's',
      name: 'mood',
    });
    decodeIn(decoder, relationBytes(SIMPLE));
    expect(decodeIn(decoder, Buffer.concat([tag('T'), u32(1), u8(3), u32(SIMPLE.oid)]))).toMatchObject({
      tag: 'truncate',
      cascade: true,
      restartIdentity: true,
      relations: [{ oid: SIMPLE.oid }],
    });
    expect(
      decodeIn(decoder, Buffer.concat([tag('M'), u8(1), u64(77n), str('sluice'), u32(3), Buffer.from('abc')])),
    ).toEqual({
      tag: 'message',
      streamXid: 0,
      transactional: true,
      lsn: 77n,
      prefix: 'sluice',
      content: Buffer.from('abc'),
    });
    expect(
      decodeIn(decoder, Buffer.concat([tag('r'), u8(0), u64(1n), u64(2n), u64(3n), u64(4n), u32(5), str('gid')])),
    ).toEqual({ tag: 'rollback-prepared', lsn: 1n, endLsn: 2n, time: 4n, xid: 5, gid: 'gid' });
    expect(decodeIn(decoder, Buffer.concat([tag('P'), u8(0), u64(1n), u64(2n), u64(3n), u32(5), str('gid')]))).toEqual({
      tag: 'prepare',
      lsn: 1n,
      endLsn: 2n,
      time: 3n,
      xid: 5,
      gid: 'gid',
    });
  });

  it('decodes each tuple with the RELATION in force when it was sent', () => {
    const decoder = createPgoutputDecoder();
    const renamed: Definition = {
      ...SIMPLE,
      columns: [...SIMPLE.columns, { name: 'extra', typeOid: 23, typeModifier: -1, inKey: false }],
    };
    const row = (...values: Cell[]) => Buffer.concat([tag('I'), u32(SIMPLE.oid), tag('N'), cells(values)]);
    decodeIn(decoder, relationBytes(SIMPLE));
    expect((decodeIn(decoder, row('1', 'a')) as { relation: RelationMessage }).relation.columns).toHaveLength(2);
    decodeIn(decoder, relationBytes(renamed));
    expect((decodeIn(decoder, row('1', 'a', '5')) as { relation: RelationMessage }).relation.columns).toHaveLength(3);
    expect(() => decodeIn(decoder, row('1', 'a'))).toThrow(/2 columns for t, whose RELATION has 3/);
  });

  it('keeps the definitions of a streamed transaction apart until it commits', () => {
    const wide: Definition = {
      ...SIMPLE,
      columns: [...SIMPLE.columns, { name: 'extra', typeOid: 23, typeModifier: -1, inKey: false }],
    };
    for (const outcome of ['commit', 'abort'] as const) {
      const decoder = createPgoutputDecoder();
      decodeIn(decoder, relationBytes(SIMPLE));
      decodeIn(decoder, Buffer.concat([tag('S'), u32(900), u8(1)]));
      decodeIn(decoder, relationBytes(wide, 901));
      decodeIn(decoder, tag('E'));
      expect(decoder.relations.get(SIMPLE.oid, 0).columns).toHaveLength(2);
      expect(decoder.relations.get(SIMPLE.oid, 900).columns).toHaveLength(3);
      decodeIn(
        decoder,
        outcome === 'commit'
          ? Buffer.concat([tag('c'), u32(900), u8(0), u64(1n), u64(2n), u64(3n)])
          : Buffer.concat([tag('A'), u32(900), u32(900)]),
      );
      expect(decoder.relations.get(SIMPLE.oid, 0).columns).toHaveLength(outcome === 'commit' ? 3 : 2);
    }
  });

  it('refuses rows of a table that was never described', () => {
    const decoder = createPgoutputDecoder();
    expect(() => decodeIn(decoder, Buffer.concat([tag('I'), u32(4), tag('N'), cells(['1'])]))).toThrow(/table OID 4/);
  });

  it('refuses a message that is cut short, at every length, and one with bytes behind it', () => {
    const message = Buffer.concat([
      tag('U'),
      u32(SIMPLE.oid),
      tag('K'),
      cells(['1', null]),
      tag('N'),
      cells(['1', 'abc']),
    ]);
    for (let length = 0; length < message.length; length++) {
      const decoder = createPgoutputDecoder();
      decodeIn(decoder, relationBytes(SIMPLE));
      expect(() => decoder.decode(message, 0, length)).toThrow(/malformed/);
    }
    const decoder = createPgoutputDecoder();
    decodeIn(decoder, relationBytes(SIMPLE));
    expect(() => decodeIn(decoder, Buffer.concat([message, u8(0)]))).toThrow(/1 bytes behind/);
    expect(() => decodeIn(decoder, tag('?'))).toThrow(/unknown message type/);
  });
});
