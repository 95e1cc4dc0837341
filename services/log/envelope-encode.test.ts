import { describe, expect, test } from 'vitest';
import { columnOf as column, rowEvent as event, shapeOf, tupleOf, UNCHANGED } from '../../test/support/row-events.ts';
import type { ColumnShape, TableShape } from './event.ts';
import { compileShapeEncoder, createEnvelopeEncoder, EncodeError } from './envelope-encode.ts';
import type { RowEvent } from './row-event.ts';

const source = { name: 'shop', database: 'sho"p' };
const keyed = shapeOf([column('tenant', 'integer', 2), column('id', 'bigint', 1), column('body', 'text')]);

function encodeOne(shape: TableShape, change: Partial<RowEvent>): { key: string | null; text: string; header: Buffer } {
  const record = createEnvelopeEncoder().encode(compileShapeEncoder(shape, source), event(change));
  return { key: record.key?.toString() ?? null, text: record.value.toString(), header: record.header };
}

function afterOf(pgType: string, cell: string, extra: Partial<ColumnShape> = {}): string {
  const { text } = encodeOne(shapeOf([column('v', pgType, 0, extra)]), { after: tupleOf([cell]) });
  const match = /^\{"before":null,"after":\{"v":(.*)\},"source":/s.exec(text);
  if (match?.[1] === undefined) throw new Error(`unexpected envelope ${text}`);
  return match[1];
}

describe('the envelope', () => {
  test('of an insert is one line of JSON with the names that Debezium uses', () => {
    const { key, text, header } = encodeOne(keyed, { after: tupleOf(['3', '9007199254740993', 'a']) });
    expect(key).toBe('{"id":9007199254740993,"tenant":3}');
    expect(text).toBe(
      '{"before":null,"after":{"tenant":3,"id":9007199254740993,"body":"a"},' +
        '"source":{"version":"1","connector":"postgresql","name":"shop","ts_ms":1700000000123,"snapshot":"false",' +
        '"db":"sho\\"p","sequence":"[\\"4294967312\\",\\"4294967312\\"]","schema":"public","table":"orders","txId":755,' +
        '"lsn":4294967312,"epoch":1,"ord":0},"op":"c","ts_ms":1700000000500,' +
        '"transaction":{"id":"755:4294967312","total_order":1,"data_collection_order":1}}',
    );
    expect(header.toString('hex')).toBe(
      '01630000' + '00000001' + '0000000100000010' + '00000000' + '00000007' + '00060a2418202240',
    );
  });

  test('of an update names unchanged columns and has the key in before', () => {
    const { text } = encodeOne(keyed, { op: 'u', ord: 12, after: tupleOf(['3', '5', UNCHANGED]) });
    expect(text).toContain('{"before":{"id":5,"tenant":3},"after":{"tenant":3,"id":5},"source"');
    expect(text).toContain('"ord":12},"op":"u"');
    expect(text.endsWith(',"unchanged":["body"]}')).toBe(true);
  });

  test('takes an unchanged column from the old row under replica identity FULL', () => {
    const { text } = encodeOne(keyed, {
      op: 'u',
      after: tupleOf(['3', '5', UNCHANGED]),
      before: tupleOf(['3', '5', 'old']),
      beforeIs: 'row',
    });
    expect(text).toContain('{"before":{"tenant":3,"id":5,"body":"old"},"after":{"tenant":3,"id":5,"body":"old"}');
    expect(text).not.toContain('unchanged');
  });

  test('takes an unchanged key column from the old key, and refuses when nothing has it', () => {
    const change = { op: 'u' as const, after: tupleOf([UNCHANGED, '5', 'x']) };
    expect(encodeOne(keyed, { ...change, before: tupleOf(['3', '5', null]) }).key).toBe('{"id":5,"tenant":3}');
    expect(() => encodeOne(keyed, change)).toThrow(EncodeError);
  });

  test('of a delete has the old key only, and each half of a key change names the other', () => {
    const { key, text } = encodeOne(keyed, {
      op: 'd',
      before: tupleOf(['3', '5', null]),
      otherKey: tupleOf(['3', '6', null]),
    });
    expect(key).toBe('{"id":5,"tenant":3}');
    expect(text).toContain('{"before":{"id":5,"tenant":3},"after":null,');
    expect(text.endsWith(',"otherKey":{"id":6,"tenant":3}}')).toBe(true);
  });

  test('of a truncate has neither key nor rows', () => {
    const { key, text } = encodeOne(keyed, { op: 't', totalOrder: 0 });
    expect(key).toBeNull();
    expect(text).toContain('{"before":null,"after":null,');
    expect(text).toContain('"op":"t","ts_ms":1700000000500,"transaction":null}');
  });

  test('keeps earlier slices valid while chunks fill up and a record outgrows its chunk', () => {
    const encoder = createEnvelopeEncoder({ chunkBytes: 1024 });
    const shape = compileShapeEncoder(keyed, source);
    const long = 'é"\n'.repeat(20_000);
    const kept = Array.from({ length: 50 }, (_, i) =>
      encoder.encode(shape, event({ ord: i, after: tupleOf(['1', String(i), i === 25 ? long : `row ${i}`]) })),
    );
    kept.forEach((record, i) => {
      expect(record.key?.toString()).toBe(`{"id":${i},"tenant":1}`);
      const envelope = JSON.parse(record.value.toString()) as { after: { body: string }; source: { ord: number } };
      expect(envelope.after.body).toBe(i === 25 ? long : `row ${i}`);
      expect(envelope.source.ord).toBe(i);
      expect(record.header.readUInt32BE(16)).toBe(i);
    });
  });
});

describe('cells', () => {
  test.each([
    ['boolean', 't', 'true'],
    ['boolean', 'f', 'false'],
    ['bigint', '-9223372036854775808', '-9223372036854775808'],
    ['oid', '4294967295', '4294967295'],
    ['double precision', '-0', '-0'],
    ['double precision', '1e-07', '1e-07'],
    ['double precision', 'NaN', '"NaN"'],
    ['real', '-Infinity', '"-Infinity"'],
    ['numeric(12,2)', '0.10', '"0.10"'],
    ['numeric', 'NaN', '"NaN"'],
    ['bytea', '\\x', '""'],
    ['bytea', '\\x00', '"AA=="'],
    ['bytea', '\\xfffe', '"//4="'],
    ['bytea', '\\xdeadbeef00', '"3q2+7wA="'],
    ['timestamp without time zone', '2024-01-02 03:04:05.123456', '"2024-01-02T03:04:05.123456"'],
    ['timestamp(3) without time zone', '0044-03-15 00:00:00 BC', '"0044-03-15T00:00:00 BC"'],
    ['timestamp with time zone', '2024-01-02 03:04:05.1+00', '"2024-01-02T03:04:05.1Z"'],
    ['timestamp with time zone', '0044-03-15 00:00:00+00 BC', '"0044-03-15T00:00:00Z BC"'],
    ['timestamp with time zone', '-infinity', '"-infinity"'],
    ['date', '15000-01-01', '"15000-01-01"'],
    ['time with time zone', '23:59:60+15:59', '"23:59:60+15:59"'],
    ['jsonb', '{"n": 12345678901234567890}', '"{\\"n\\": 12345678901234567890}"'],
    ['text', 'a"b\\c\nd\u0001é\u2028😀', '"a\\"b\\\\c\\nd\\u0001é\u2028😀"'],
    ['public.order_status', 'x,y', '"x,y"'],
  ])('%s %s becomes %s', (pgType, cell, json) => {
    expect(afterOf(pgType, cell)).toBe(json);
  });

  test.each([
    ['text[]', '{"a,b","c\\"d","e\\\\f",NULL,"NULL","",x}', '["a,b","c\\"d","e\\\\f",null,"NULL","","x"]'],
    ['text[]', '{}', '[]'],
    ['text[]', '{null}', '["null"]'],
    ['integer[]', '{1,-2,NULL}', '[1,-2,null]'],
    ['integer[]', '[0:2]={1,2,3}', '"[0:2]={1,2,3}"'],
    ['integer[]', '{{1,2},{3,4}}', '"{{1,2},{3,4}}"'],
    ['boolean[]', '{t,f}', '[true,false]'],
    ['bytea[]', '{"\\\\x00","\\\\xff"}', '["AA==","/w=="]'],
    ['double precision[]', '{1.5,NaN}', '[1.5,"NaN"]'],
    ['timestamp with time zone[]', '{"2024-01-02 03:04:05+00"}', '["2024-01-02T03:04:05Z"]'],
    ['box[]', '{(1,1),(0,0);(2,2),(1,1)}', '["(1,1),(0,0)","(2,2),(1,1)"]'],
  ])('%s %s becomes %s', (pgType, cell, json) => {
    expect(afterOf(pgType, cell)).toBe(json);
  });

  test('a domain is as its base type, an array of an enum as text', () => {
    expect(afterOf('public.quantity', '5', { kind: 'domain', baseType: 'integer' })).toBe('5');
    expect(afterOf('public.tags', '{1,2}', { kind: 'domain', baseType: 'integer[]' })).toBe('[1,2]');
    expect(afterOf('public.status[]', '{"x,y",new}', { kind: 'array', baseType: 'public.status' })).toBe(
      '["x,y","new"]',
    );
  });

  test('a bytea in escape form is refused rather than misread', () => {
    expect(() => afterOf('bytea', 'abc')).toThrow(/bytea_output/);
  });
});
