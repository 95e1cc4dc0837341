import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { columnOf, propertyRuns, shapeOf } from '../../test/support/row-events.ts';
import { decimalText, type DebeziumModes } from './debezium-cell.ts';
import { createDebeziumDecoder, decodeDebeziumRecord } from './debezium-decode.ts';
import { dateText, timestampText, timeText } from './debezium-time.ts';
import type { DecodedEvent } from './envelope-decode.ts';

const place = { topic: 'pg.public.t', partition: 0, offset: 42n };
const PLACEHOLDER = '__debezium_unavailable_value';
const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Big-endian two's complement, as few bytes as can be, as Java's BigInteger.toByteArray gives it. */
function unscaled(value: bigint): string {
  let bytes = 1;
  while (BigInt.asIntN(bytes * 8, value) !== value) bytes++;
  const hex = BigInt.asUintN(bytes * 8, value)
    .toString(16)
    .padStart(bytes * 2, '0');
  return Buffer.from(hex, 'hex').toString('base64');
}

const source = {
  version: '3.0',
  connector: 'postgresql',
  ts_ms: 1700000000123,
  lsn: 24023128,
  txId: 555,
  schema: 'public',
};

interface Field {
  readonly pgType: string;
  readonly json?: unknown;
  /** A number as Java prints it, in place of `json`. */
  readonly text?: string;
  /** What the schema says of it beside its type. */
  readonly schema?: object;
}

function decodeField(
  field: Field,
  modes: Partial<DebeziumModes> = {},
  op = 'c',
  inlined = field.schema !== undefined,
): unknown {
  const shape = shapeOf([columnOf('id', 'integer', 1), columnOf('v', field.pgType)]);
  const payload = {
    before: null,
    after: { id: 1, v: field.text === undefined ? field.json : '@' },
    source,
    op,
    ts_ms: 1,
  };
  const row = {
    type: 'struct',
    field: 'after',
    fields: [
      { type: 'int32', field: 'id' },
      { field: 'v', ...field.schema },
    ],
  };
  const value = inlined ? { schema: { type: 'struct', fields: [row] }, payload } : payload;
  const key = Buffer.from(JSON.stringify(inlined ? { schema: {}, payload: { id: 1 } } : { id: 1 }));
  const decoder = createDebeziumDecoder(shape, modes);
  const text = JSON.stringify(value).replace('"@"', field.text ?? '"@"');
  return decodeDebeziumRecord(decoder, key, Buffer.from(text), place).row['v'];
}

describe('values that Debezium wrote', () => {
  const decimal = (scale: number): object => ({
    type: 'bytes',
    name: 'org.apache.kafka.connect.data.Decimal',
    parameters: { scale: String(scale) },
  });
  const named = (name: string, type = 'int64'): object => ({ type, name: `io.debezium.time.${name}` });
  test.each<[string, Field, unknown]>([
    ['precise', { pgType: 'numeric(12,2)', json: unscaled(-123456n), schema: decimal(2) }, '-1234.56'],
    ['precise below one', { pgType: 'numeric(4,4)', json: unscaled(7n), schema: decimal(4) }, '0.0007'],
    [
      'variable scale',
      { pgType: 'numeric', json: { scale: 3, value: unscaled(10n ** 40n) }, schema: { type: 'struct' } },
      `1${'0'.repeat(37)}.000`,
    ],
    ['string', { pgType: 'numeric(12,2)', json: '0.10', schema: { type: 'string' } }, '0.10'],
    ['double', { pgType: 'numeric(12,2)', json: 0.1, schema: { type: 'double' } }, '0.1'],
    [
      'double, as Java prints large ones',
      { pgType: 'numeric(12,2)', text: '1.23456789E7', schema: { type: 'double' } },
      '12345678.9',
    ],
    [
      'double, as Java prints small ones',
      { pgType: 'numeric', text: '-1.5E-7', schema: { type: 'double' } },
      '-0.00000015',
    ],
    ['double without a fraction', { pgType: 'numeric', text: '1.0E10', schema: { type: 'double' } }, '10000000000'],
    ['Date', { pgType: 'date', json: 19724, schema: named('Date', 'int32') }, '2024-01-02'],
    ['a date BC', { pgType: 'date', json: -735160, schema: named('Date', 'int32') }, '0044-03-15 BC'],
    [
      'Timestamp',
      { pgType: 'timestamp(3) without time zone', json: 1704164645120, schema: named('Timestamp') },
      '2024-01-02T03:04:05.12',
    ],
    [
      'MicroTimestamp',
      { pgType: 'timestamp without time zone', json: 1704164645123456, schema: named('MicroTimestamp') },
      '2024-01-02T03:04:05.123456',
    ],
    [
      'NanoTimestamp',
      { pgType: 'timestamp without time zone', json: 1704164645000000, schema: named('NanoTimestamp') },
      '1970-01-20T17:22:44.645',
    ],
    [
      'connect',
      {
        pgType: 'timestamp without time zone',
        json: -1,
        schema: { type: 'int64', name: 'org.apache.kafka.connect.data.Timestamp' },
      },
      '1969-12-31T23:59:59.999',
    ],
    [
      'IsoTimestamp',
      {
        pgType: 'timestamp without time zone',
        json: '2024-01-02T03:04:05.100Z',
        schema: named('IsoTimestamp', 'string'),
      },
      '2024-01-02T03:04:05.1',
    ],
    [
      'ZonedTimestamp',
      {
        pgType: 'timestamp with time zone',
        json: '2024-01-02T03:04:05.123400Z',
        schema: named('ZonedTimestamp', 'string'),
      },
      '2024-01-02T03:04:05.1234Z',
    ],
    [
      'ZonedTimestamp, whole minutes',
      { pgType: 'timestamp with time zone', json: '2024-01-02T03:04Z', schema: named('ZonedTimestamp', 'string') },
      '2024-01-02T03:04:00Z',
    ],
    [
      'ZonedTimestamp far ahead',
      { pgType: 'timestamp with time zone', json: '+15000-01-01T00:00:00Z', schema: named('ZonedTimestamp', 'string') },
      '15000-01-01T00:00:00Z',
    ],
    [
      'ZonedTimestamp BC',
      { pgType: 'timestamp with time zone', json: '-0043-03-15T12:00:00Z', schema: named('ZonedTimestamp', 'string') },
      '0044-03-15T12:00:00Z BC',
    ],
    [
      'IsoTimestamp of year 0',
      { pgType: 'timestamp without time zone', json: '0000-12-31T23:59:59Z', schema: named('IsoTimestamp', 'string') },
      '0001-12-31T23:59:59 BC',
    ],
    ['IsoDate far ahead', { pgType: 'date', json: '+15000-01-01Z', schema: named('IsoDate', 'string') }, '15000-01-01'],
    ['MicroTime', { pgType: 'time without time zone', json: 86400000000, schema: named('MicroTime') }, '24:00:00'],
    [
      'ZonedTime',
      { pgType: 'time with time zone', json: '10:20:30Z', schema: named('ZonedTime', 'string') },
      '10:20:30+00',
    ],
    [
      'Bits',
      {
        pgType: 'bit(10)',
        json: Buffer.from([0x05, 0x02]).toString('base64'),
        schema: { type: 'bytes', parameters: { length: '10' } },
      },
      '1000000101',
    ],
    ['bit(1)', { pgType: 'bit(1)', json: true, schema: { type: 'boolean' } }, '1'],
    [
      'point',
      { pgType: 'point', json: { x: 1.5, y: -2, wkb: 'AAA=', srid: null }, schema: { type: 'struct' } },
      '(1.5,-2)',
    ],
    ['bytea', { pgType: 'bytea', json: 'AQID', schema: { type: 'bytes' } }, 'AQID'],
    ['jsonb', { pgType: 'jsonb', json: '{"n": 1}', schema: { type: 'string' } }, '{"n": 1}'],
    [
      'numeric[]',
      { pgType: 'numeric(5,1)[]', json: [unscaled(15n), null], schema: { type: 'array', items: decimal(1) } },
      ['1.5', null],
    ],
    [
      'date[]',
      { pgType: 'date[]', json: [0, -1], schema: { type: 'array', items: named('Date', 'int32') } },
      ['1970-01-01', '1969-12-31'],
    ],
    ['text[]', { pgType: 'text[]', json: ['a', null, 'NULL'], schema: { type: 'array' } }, ['a', null, 'NULL']],
    ['null', { pgType: 'numeric', json: null, schema: { type: 'struct' } }, null],
  ])('%s, by the inlined schema', (_, field, expected) => {
    expect(decodeField(field)).toEqual(expected);
  });

  test.each<[string, Field, Partial<DebeziumModes>, unknown]>([
    ['adaptive, three digits', { pgType: 'timestamp(3) without time zone', json: 1000 }, {}, '1970-01-01T00:00:01'],
    ['adaptive, six digits', { pgType: 'timestamp without time zone', json: 1000 }, {}, '1970-01-01T00:00:00.001'],
    [
      'adaptive_time_microseconds',
      { pgType: 'time(0) without time zone', json: 1000000 },
      { times: 'adaptive_time_microseconds' },
      '00:00:01',
    ],
    ['adaptive time(0)', { pgType: 'time(0) without time zone', json: 1000 }, {}, '00:00:01'],
    ['connect', { pgType: 'timestamp without time zone', json: 1000 }, { times: 'connect' }, '1970-01-01T00:00:01'],
    ['isostring', { pgType: 'date', json: '2024-01-02Z' }, { times: 'isostring' }, '2024-01-02'],
    ['precise', { pgType: 'numeric(6,2)', json: unscaled(100n) }, {}, '1.00'],
    ['string', { pgType: 'numeric(6,2)', json: '1.00' }, { decimals: 'string' }, '1.00'],
    ['hex', { pgType: 'bytea', json: '0102' }, { binary: 'hex' }, 'AQI='],
    ['infinity', { pgType: 'timestamp without time zone', json: '9223372036825200000' }, {}, '9223372036825200000'],
  ])('%s, by mode and column', (_, field, modes, expected) => {
    expect(decodeField(field, modes)).toEqual(expected);
  });

  test('a decimal in another mode than was said is refused, not misread', () => {
    expect(() => decodeField({ pgType: 'numeric(6,2)', json: '12.34' })).toThrow(/decimal.handling.mode/);
  });

  test('64-bit integers and infinities stay exact', () => {
    const shape = shapeOf([columnOf('id', 'bigint', 1), columnOf('at', 'timestamp without time zone')]);
    const value = `{"op":"c","after":{"id":9007199254740993,"at":9223372036825200000},"source":{"lsn":18446744073709551615}}`;
    const event = decodeDebeziumRecord(createDebeziumDecoder(shape), Buffer.from('{}'), Buffer.from(value), place);
    expect([event.row['id'], event.row['at'], event.lsn]).toEqual([
      9007199254740993n,
      'infinity',
      0xffff_ffff_ffff_ffffn,
    ]);
  });

  test('decimals are exact at any size', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 60n), max: 10n ** 60n }), fc.nat(50), (value, scale) => {
        const text = decimalText(unscaled(value), scale);
        expect(BigInt(text.replace('.', ''))).toBe(value);
        expect(text.split('.')[1]?.length ?? 0).toBe(scale);
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  test('dates and times agree with the calendar', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -62135596800000n, max: 253402300799999n }), (ms) => {
        const iso = new Date(Number(ms)).toISOString();
        expect(dateText(ms / 86_400_000n - (ms % 86_400_000n < 0n ? 1n : 0n))).toBe(iso.slice(0, 10));
        const shown = timestampText(ms * 1000n, '');
        expect(shown).not.toMatch(/\.\d*0$/);
        expect(Date.parse(`${shown}Z`)).toBe(Number(ms));
      }),
      { numRuns: propertyRuns(200) },
    );
    expect(timestampText(9_224_318_015_999_999_999n, '')).toBe('294276-12-31T23:59:59.999999');

    expect(timeText(1n)).toBe('00:00:00.000001');
  });
});

describe('values that PostgreSQL did not send', () => {
  test.each<[string, Field]>([
    ['text', { pgType: 'text', json: PLACEHOLDER }],
    ['jsonb', { pgType: 'jsonb', json: PLACEHOLDER }],
    ['bytea', { pgType: 'bytea', json: base64(PLACEHOLDER) }],
    ['text[]', { pgType: 'text[]', json: [PLACEHOLDER] }],
    ['bytea[]', { pgType: 'bytea[]', json: [base64(PLACEHOLDER)] }],
    ['integer[]', { pgType: 'integer[]', json: [...Buffer.from(PLACEHOLDER)] }],
    ['numeric, variable scale', { pgType: 'numeric', json: { scale: 0, value: base64(PLACEHOLDER) } }],
    ['numeric(9,2)', { pgType: 'numeric(9,2)', json: base64(PLACEHOLDER) }],
    ['hstore map', { pgType: 'hstore', json: { [PLACEHOLDER]: PLACEHOLDER } }],
    ['hstore text', { pgType: 'hstore', json: JSON.stringify({ [PLACEHOLDER]: PLACEHOLDER }) }],
  ])('%s: absent in an update, a value in an insert', (_, field) => {
    expect(decodeField(field, {}, 'u')).toBeUndefined();
    expect(decodeField(field, {}, 'c')).toBeDefined();
  });

  test('columns that are never moved out keep such a text in updates, too', () => {
    expect(decodeField({ pgType: 'uuid', json: PLACEHOLDER }, {}, 'u')).toBe(PLACEHOLDER);
    expect(decodeField({ pgType: 'text', json: `x${PLACEHOLDER}` }, {}, 'u')).toBe(`x${PLACEHOLDER}`);
    expect(decodeField({ pgType: 'text', json: '?' }, { placeholder: '?' }, 'u')).toBeUndefined();
  });
});

describe('records that Debezium wrote', () => {
  const shape = shapeOf([columnOf('id', 'integer', 1), columnOf('v', 'text'), columnOf('n', 'numeric')]);
  const decoder = createDebeziumDecoder(shape);
  const key = Buffer.from('{"id":1}');
  const decode = (value: unknown, k: Buffer | null = key): DecodedEvent =>
    decodeDebeziumRecord(decoder, k, value === null ? null : Buffer.from(JSON.stringify(value)), place);

  test('have position, operation and time from the envelope, and the offset as ordinal', () => {
    const event = decode({ before: null, after: { id: 1, v: 'x', n: null }, source, op: 'r' });
    expect(event).toMatchObject({
      op: 'r',
      epoch: 1,
      lsn: 24023128n,
      ord: 42,
      committedAtMicros: 1_700_000_000_123_000n,
    });
    expect(event.shapeVersion).toBe(0);
  });

  test('a delete gives the key, and the whole old row under replica identity FULL', () => {
    expect({ ...decode({ before: { id: 1, v: null, n: null }, after: null, source, op: 'd' }).row }).toEqual({ id: 1 });
    const full = decode({ before: { id: 1, v: 'old', n: null }, after: null, source, op: 'd' });
    expect({ ...full.row }).toEqual({ id: 1, v: 'old', n: null });
  });

  test('a delete without an old row gives the key of its record', () => {
    const event = decode({ before: null, after: null, source, op: 'd' });
    expect({ op: event.op, lsn: event.lsn, row: { ...event.row } }).toEqual({
      op: 'd',
      lsn: 24023128n,
      row: { id: 1 },
    });
    expect(() => decode({ before: null, after: null, source, op: 'd' }, null)).toThrow("op 'd' without 'before'");
  });

  test('tombstones, with and without a schema, give the key', () => {
    expect(decode(null)).toMatchObject({ op: 'tombstone' });
    expect(decoder.base.cells.row['id']).toBe(1);
    const wrapped = Buffer.from('{"schema":{"type":"struct","fields":[]},"payload":{"id":7}}');
    expect(decode({ schema: null, payload: null }, wrapped).op).toBe('tombstone');
    expect(decoder.base.cells.row['id']).toBe(7);
  });

  test('truncates and messages have no row', () => {
    expect(decode({ op: 't', source }, null).op).toBe('t');
    expect(decode({ op: 'm', source, message: { prefix: 'p', content: 'AA==' } }, null).op).toBe('m');
  });

  test('a schema that changes between two records is taken up', () => {
    const wrap = (scale: number): unknown => ({
      schema: {
        type: 'struct',
        fields: [{ field: 'after', fields: [{ field: 'n', type: 'bytes', parameters: { scale: `${scale}` } }] }],
      },
      payload: { op: 'c', after: { id: 1, v: 'x', n: unscaled(15n) }, source },
    });
    expect(decode(wrap(1)).row['n']).toBe('1.5');
    expect(decode(wrap(2)).row['n']).toBe('0.15');
  });

  test.each([
    ['no JSON', 'nothing', 'DECODE_NOT_JSON'],
    ['no envelope', '{"id":1}', 'DECODE_NOT_ENVELOPE'],
    ['a list', '[1]', 'DECODE_NOT_ENVELOPE'],
  ])('%s is refused by name', (_, text, code) => {
    expect(() => decodeDebeziumRecord(decoder, key, Buffer.from(text), place)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  test('a null key is refused', () => {
    expect(() => decode({ op: 'c', after: { id: 1 }, source }, null)).toThrow(
      expect.objectContaining({ code: 'DECODE_NULL_KEY' }),
    );
  });
});
