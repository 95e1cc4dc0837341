import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Cell, GateRow } from '../../contracts/engine/gate.ts';
import {
  columnOf,
  propertyRuns,
  rowEvent,
  shapeOf,
  tupleOf,
  UNCHANGED,
  type CellText,
} from '../../test/support/row-events.ts';
import { DecodeError } from './decode-error.ts';
import { createEnvelopeDecoder, decodeRecord, shapeVersionOf, type DecodedEvent } from './envelope-decode.ts';
import { compileShapeEncoder, createEnvelopeEncoder } from './envelope-encode.ts';
import type { RowEvent } from './row-event.ts';
import type { TableShape } from './event.ts';
import { lsn } from './position.ts';

const place = { topic: 'shop.public.orders', partition: 3, offset: 17n };
const source = { name: 'shop', database: 'shop' };

function roundTrip(shape: TableShape, change: Partial<RowEvent>): { event: DecodedEvent; row: GateRow } {
  const record = createEnvelopeEncoder().encode(compileShapeEncoder(shape, source), rowEvent(change));
  const event = decodeRecord(createEnvelopeDecoder(shape), record.key, record.value, record.header, place);
  return { event, row: event.row };
}

/** A value of some type: its PostgreSQL text and the cell it must become. */
interface Sample {
  readonly text: string;
  readonly cell: Cell;
}
const asText = (text: string): Sample => ({ text, cell: text });
const nasty = fc
  .oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.constantFrom(
      '',
      'NULL',
      'null',
      '"',
      '\\',
      '{}',
      'a,b',
      '\u2028',
      '😀'.repeat(50),
      '\n\t\r\b\f\u0001\u001f',
      'é"'.repeat(80),
    ),
  )
  .map((text) => text.replaceAll('\0', ''));

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const intCell = (value: bigint): Cell =>
  value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
/** As PostgreSQL prints a float with extra_float_digits=3: shortest digits, exponent with two figures at least. */
const pgFloat = (value: number): string =>
  Object.is(value, -0) ? '-0' : String(value).replace(/e([+-])(\d)$/, 'e$10$2');
const hexOf = (bytes: Uint8Array): string => `\\x${Buffer.from(bytes).toString('hex')}`;
const micros = fc
  .integer({ min: 0, max: 999_999 })
  .map((n) => (n === 0 ? '' : `.${String(n).padStart(6, '0').replace(/0+$/, '')}`));
const day = fc.constantFrom('2024-01-02', '0001-01-01', '15000-12-31', '294276-12-31', '1969-12-31');
const era = fc.constantFrom('', ' BC');

const scalars: Readonly<Record<string, fc.Arbitrary<Sample>>> = {
  bigint: int64.map((v) => ({ text: String(v), cell: intCell(v) })),
  integer: fc.integer().map((v) => ({ text: String(v), cell: v })),
  boolean: fc.boolean().map((v) => ({ text: v ? 't' : 'f', cell: v })),
  'double precision': fc.double().map((v) => ({ text: pgFloat(v), cell: v })),
  'numeric(40,10)': fc.oneof(int64, fc.constantFrom('NaN', '0.10', '-0.0000000001')).map((v) => asText(String(v))),
  bytea: fc.uint8Array({ maxLength: 20 }).map((v) => ({ text: hexOf(v), cell: Buffer.from(v).toString('base64') })),
  'timestamp without time zone': fc
    .tuple(day, micros, era)
    .map(([d, m, e]) => ({ text: `${d} 23:59:59${m}${e}`, cell: `${d}T23:59:59${m}${e}` })),
  'timestamp with time zone': fc.oneof(
    fc.constant(asText('infinity')),
    fc
      .tuple(day, micros, era)
      .map(([d, m, e]) => ({ text: `${d} 00:00:00${m}+00${e}`, cell: `${d}T00:00:00${m}Z${e}` })),
  ),
  date: fc.tuple(day, era).map(([d, e]) => asText(`${d}${e}`)),
  text: nasty.map(asText),
  jsonb: fc.json().map(asText),
  'public.order_status': fc.constantFrom('new', 'x,y').map(asText),
};

/** PostgreSQL's array_out: quotes what is empty, NULL, or has a delimiter, brace, quote, backslash or white space. */
function arrayText(elements: readonly (string | null)[]): string {
  const parts = elements.map((element) => {
    if (element === null) return 'NULL';
    if (element !== '' && !/^null$/i.test(element) && !/[{}",\\\s]/.test(element)) return element;
    return `"${element.replace(/["\\]/g, '\\$&')}"`;
  });
  return `{${parts.join(',')}}`;
}

const typed: Readonly<Record<string, fc.Arbitrary<Sample>>> = {
  ...scalars,
  ...Object.fromEntries(
    Object.entries(scalars).map(([type, arbitrary]) => [
      `${type}[]`,
      fc.array(fc.option(arbitrary), { maxLength: 5 }).map((samples) => ({
        text: arrayText(samples.map((sample) => sample?.text ?? null)),
        cell: samples.map((sample) => (sample === null ? null : sample.cell)),
      })),
    ]),
  ),
};

const names = fc.uniqueArray(fc.oneof(nasty, fc.constantFrom('id', '__proto__', 'constructor', 'a"b', 'ключ')), {
  minLength: 1,
  maxLength: 6,
});
const cellState = fc.constantFrom('value', 'value', 'value', 'null', 'unchanged');

const rows = names.chain((columnNames) =>
  fc.tuple(
    ...columnNames.map((name) =>
      fc
        .constantFrom(...Object.keys(typed))
        .chain((pgType) =>
          fc.record({ name: fc.constant(name), pgType: fc.constant(pgType), sample: typed[pgType]!, state: cellState }),
        ),
    ),
  ),
);

describe('encode and decode', () => {
  test('give back every cell of every type, absent and NULL told apart', () => {
    fc.assert(
      fc.property(rows, (columns) => {
        const shape = shapeOf(columns.map((c) => columnOf(c.name, c.pgType)));
        const text = columns.map((c): CellText => {
          if (c.state === 'null') return null;
          return c.state === 'unchanged' ? UNCHANGED : c.sample.text;
        });
        const expected = columns.map((c) => {
          if (c.state === 'null') return null;
          return c.state === 'unchanged' ? undefined : c.sample.cell;
        });
        const { event, row } = roundTrip(shape, { op: 'u', after: tupleOf(text) });
        expect(columns.map((c) => row[c.name])).toStrictEqual(expected);
        expect(Object.keys(row)).toStrictEqual(expect.arrayContaining(columns.map((c) => c.name)));
        expect(event.absent).toBe(expected.filter((cell) => cell === undefined).length);
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('write envelopes that are JSON to anyone else', () => {
    fc.assert(
      fc.property(rows, (columns) => {
        const shape = shapeOf(columns.map((c) => columnOf(c.name, c.pgType)));
        const record = createEnvelopeEncoder().encode(
          compileShapeEncoder(shape, source),
          rowEvent({ after: tupleOf(columns.map((c) => (c.state === 'null' ? null : c.sample.text))) }),
        );
        const parsed = JSON.parse(record.value.toString()) as { after: object; op: string; source: { lsn: number } };
        expect(Object.keys(parsed.after)).toHaveLength(columns.length);
        expect(parsed.op).toBe('c');
        expect(parsed.source.lsn).toBe(4294967312);
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test('carry position, commit time and shape in the header', () => {
    const shape = shapeOf([columnOf('id', 'bigint', 1)]);
    const change = { ord: 9, epoch: 3, lsn: lsn(0xffff_ffff_ffff_ffffn), after: tupleOf(['1']) };
    const { event } = roundTrip(shape, change);
    expect(event).toMatchObject({ op: 'c', ord: 9, epoch: 3, lsn: 0xffff_ffff_ffff_ffffn, shapeVersion: 7 });
    expect(event.committedAtMicros).toBe(1_700_000_000_123_456n);
    expect(shapeVersionOf(null)).toBe(0);
  });

  test('two ids that JSON.parse would merge stay two', () => {
    const shape = shapeOf([columnOf('id', 'bigint', 1), columnOf('body', 'jsonb')]);
    const big = roundTrip(shape, { after: tupleOf(['9007199254740993', '{"n": 12345678901234567890}']) }).row;
    expect(big['id']).toBe(9007199254740993n);
    expect(big['body']).toBe('{"n": 12345678901234567890}');
    expect(roundTrip(shape, { after: tupleOf(['9007199254740992', null]) }).row['id']).toBe(9007199254740992n);
  });

  test('a delete gives the key columns, and each half of a key change the other key', () => {
    const shape = shapeOf([columnOf('id', 'integer', 1), columnOf('body', 'text')]);
    const { event, row } = roundTrip(shape, { op: 'd', before: tupleOf(['5', null]), otherKey: tupleOf(['6', null]) });
    expect(row['id']).toBe(5);
    expect(row['body']).toBeUndefined();
    expect(event.otherKey?.['id']).toBe(6);
    const plain = roundTrip(shape, { op: 'd', before: tupleOf(['5', null]) }).event;
    expect(plain.otherKey).toBeNull();
  });

  test('a truncate has no cells and no key', () => {
    const { event, row } = roundTrip(shapeOf([columnOf('id', 'integer', 1)]), { op: 't', totalOrder: 0 });
    expect(event.op).toBe('t');
    expect(row['id']).toBeUndefined();
  });
});

describe('decoding other bytes', () => {
  const shape = shapeOf([columnOf('id', 'bigint', 1), columnOf('v', 'text'), columnOf('f', 'real')]);
  const decoder = createEnvelopeDecoder(shape);
  const key = Buffer.from('{"id":1}');
  const decode = (value: string | Buffer | null, k: Buffer | null = key): DecodedEvent =>
    decodeRecord(decoder, k, value === null ? null : Buffer.from(value), null, place);
  const codeOf = (value: string | Buffer, k: Buffer | null = key): unknown => {
    try {
      decode(value, k);
    } catch (error) {
      if (error instanceof DecodeError) {
        expect(error.message).toContain('shop.public.orders[3] offset 17');
        expect(error.message).not.toContain('secret');
        return error.code;
      }
      throw error;
    }
    return null;
  };

  test('an envelope without a header has its position in source, in any order and spacing', () => {
    const event = decode(
      ' { "op" : "u" , "source" : {"lsn": 18446744073709551615, "epoch": 2, "ord": 4, "ts_ms": 5, "x": [1,{"a":"]"}]},\n' +
        '"after": {"v": "\\u00e9\\ud83d\\ude00\\/", "id": 12, "new \\"column": {"deep": [1, 2]}, "n": 1.50}, "before": null }\n',
    );
    expect(event).toMatchObject({ op: 'u', epoch: 2, ord: 4, lsn: 0xffff_ffff_ffff_ffffn, committedAtMicros: 5000n });
    expect({ ...event.row }).toEqual({
      id: 12,
      v: 'é😀/',
      f: undefined,
      'new "column': '{"deep": [1, 2]}',
      n: '1.50',
    });
    expect([event.absent, event.unknown]).toEqual([1, 2]);
    // Unknown columns do not linger in the next row.
    expect(Object.keys(decode('{"op":"r","after":{"id":1,"v":"x","f":"NaN"}}').row)).toEqual(['id', 'v', 'f']);
    expect(decoder.cells.row['f']).toBeNaN();
  });

  test('values that do not fit the column pass for the gate to name', () => {
    const row = decode('{"op":"c","after":{"id":1.5,"v":[1,"a"],"f":{}}}').row;
    expect({ ...row }).toEqual({ id: 1.5, v: '[1,"a"]', f: '{}' });
    expect({ ...decode('{"op":"c","after":{"id":"7","v":12.30,"f":true}}').row }).toEqual({
      id: '7',
      v: '12.30',
      f: true,
    });
  });

  test('a tombstone gives the key columns', () => {
    const event = decode(null);
    expect(event.op).toBe('tombstone');
    expect(event.row['id']).toBe(1);
  });

  test.each([
    ['plain text', 'secret', 'DECODE_NOT_JSON'],
    ['nothing', '', 'DECODE_NOT_JSON'],
    ['a cut envelope', '{"op":"c","after":{"id":1,"v":"secret', 'DECODE_NOT_JSON'],
    ['a trailing comma', '{"op":"c","after":{"id":1,}}', 'DECODE_NOT_JSON'],
    ['two values', '{"op":"c","after":{"id":1}} {}', 'DECODE_NOT_JSON'],
    ['a half surrogate', '{"op":"c","after":{"id":1,"v":"\\ud800"}}', 'DECODE_NOT_ENVELOPE'],
    ['bytes that are not UTF-8', Buffer.from('{"op":"c","after":{"id":1,"v":"\xff"}}', 'latin1'), 'DECODE_NOT_JSON'],
    ['a number', '12', 'DECODE_NOT_ENVELOPE'],
    ['a list', '[]', 'DECODE_NOT_ENVELOPE'],
    ['an empty object', '{}', 'DECODE_NOT_ENVELOPE'],
    ['an unknown op', '{"op":"x","after":{"id":1}}', 'DECODE_NOT_ENVELOPE'],
    ['an insert without a row', '{"op":"c","after":null}', 'DECODE_NOT_ENVELOPE'],
    ['a row that is a list', '{"op":"c","after":[1]}', 'DECODE_NOT_ENVELOPE'],
  ])('%s is refused with its place and no data', (_, value, code) => {
    expect(codeOf(value)).toBe(code);
  });

  test('a null key is refused for a table with a key, not for one without', () => {
    expect(codeOf('{"op":"c","after":{"id":1}}', null)).toBe('DECODE_NULL_KEY');
    const keyless = createEnvelopeDecoder(shapeOf([columnOf('id', 'bigint')]));
    expect(decodeRecord(keyless, null, Buffer.from('{"op":"c","after":{"id":1}}'), null, place).row['id']).toBe(1);
    expect(() => decodeRecord(keyless, null, null, null, place)).toThrow(/no key/);
  });

  test('a header of a newer format is refused by name', () => {
    const header = Buffer.alloc(32);
    header[0] = 2;
    expect(() => decodeRecord(decoder, key, Buffer.from('{}'), header, place)).toThrow(/format 2.*upgrade/);
  });

  test('any cut or change of one byte of an envelope is decoded or refused, never anything else', () => {
    const record = createEnvelopeEncoder().encode(
      compileShapeEncoder(shape, source),
      rowEvent({ after: tupleOf(['9007199254740993', 'a "quoted" é', '1.5']) }),
    );
    fc.assert(
      fc.property(fc.nat(record.value.length - 1), fc.nat(255), fc.boolean(), fc.boolean(), (at, byte, cut, headed) => {
        const bytes = Buffer.from(cut ? record.value.subarray(0, at) : record.value);
        if (!cut) bytes[at] = byte;
        try {
          decodeRecord(decoder, record.key, bytes, headed ? record.header : null, place);
        } catch (error) {
          expect(error).toBeInstanceOf(DecodeError);
        }
      }),
      { numRuns: propertyRuns(400) },
    );
  });
});
