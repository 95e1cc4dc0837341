/** What stands in a record for replaced values: in rows, old rows, keys, and where a column is unchanged or NULL. */
import { describe, expect, test } from 'vitest';
import { applyPrivacy, createHasher, keyIdOf } from '../../contracts/engine/privacy.ts';
import type { GateRow } from '../../contracts/engine/gate.ts';
import { columnOf, rowEvent, shapeOf, tupleOf, UNCHANGED } from '../../test/support/row-events.ts';
import { cellReplacer } from './cell-privacy.ts';
import { createEnvelopeDecoder, decodeRecord } from './envelope-decode.ts';
import { compileShapeEncoder, createEnvelopeEncoder } from './envelope-encode.ts';
import type { RowEvent } from './row-event.ts';
import type { Replaced } from './event.ts';

const KEY = Buffer.from('0123456789abcdef');
const hasher = createHasher(KEY);
const HASH: Replaced = `hash:${keyIdOf(KEY)}`;
const place = { topic: 't', partition: 0, offset: 0n };

const TYPES = [
  ['b', 'boolean', 't'],
  ['i', 'bigint', '9007199254740993'],
  ['n', 'numeric(12,2)', '143.48'],
  ['f', 'double precision', '1e+30'],
  ['t', 'text', 'ana "é" \\ x'],
  ['d', 'date', '1990-02-03'],
  ['ts', 'timestamp without time zone', '2024-01-02 03:04:05.1'],
  ['tz', 'timestamp with time zone', '2024-01-02 03:04:05+00'],
  ['by', 'bytea', '\\x00ff'],
  ['a', 'text[]', '{a,"b c",NULL}'],
  ['j', 'jsonb', '{"a": 1}'],
] as const;

function decoded(columns: Parameters<typeof shapeOf>[0], change: Partial<RowEvent>): { row: GateRow; text: string } {
  const shape = shapeOf(columns);
  const compiled = compileShapeEncoder(shape, { name: 'shop', database: 'shop' }, (c) => cellReplacer(c, hasher));
  const record = createEnvelopeEncoder().encode(compiled, rowEvent(change));
  const decoder = createEnvelopeDecoder(shape);
  const event = decodeRecord(decoder, record.key, record.value, record.header, place);
  return { row: { ...event.row }, text: `${String(record.key)} ${String(record.value)}` };
}

describe('a hash before the log', () => {
  test.each(TYPES)('of %s (%s) is the one that the stream would make', (name, type, text) => {
    const after = tupleOf(['1', text]);
    const id = columnOf('id', 'integer', 1);
    const clear = decoded([id, columnOf(name, type)], { after }).row;
    applyPrivacy({ columns: [{ name, action: 'hash' }], hasher }, clear);
    const hidden = decoded([id, columnOf(name, type, 0, { replaced: HASH })], { after });
    expect(hidden.row[name]).toBe(clear[name]);
    expect(hidden.row[name]).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe('records', () => {
  const columns = [
    columnOf('ssn', 'text', 1, { replaced: HASH }),
    columnOf('email', 'text', 0, { replaced: HASH }),
    columnOf('phone', 'text', 0, { replaced: 'mask' }),
    columnOf('born', 'date', 0, { replaced: 'null' }),
    columnOf('note', 'text', 0, { replaced: 'drop' }),
    columnOf('plain', 'text'),
  ];
  const after = tupleOf(['secret-1', 'secret-2', 'secret-3', '1990-01-01', 'secret-4', 'open']);
  const old = tupleOf(['secret-5', 'secret-6', 'secret-7', '1990-01-02', 'secret-8', 'was']);

  test.each([
    ['insert', { op: 'c', after }],
    ['snapshot', { op: 'r', after }],
    ['update with the old row', { op: 'u', after, before: old, beforeIs: 'row' }],
    ['update with the old key', { op: 'u', after, before: old, beforeIs: 'key' }],
    ['delete with the old row', { op: 'd', before: old, beforeIs: 'row' }],
    ['half of a key change', { op: 'd', before: old, beforeIs: 'key', otherKey: after }],
  ] as const)('of an %s hold no clear value, in key and envelope', (_name, change) => {
    const { text, row } = decoded(columns, change);
    expect(text).not.toMatch(/secret|1990|note/);
    expect(row['ssn']).toBe(hasher(change.op === 'd' ? 'secret-5' : 'secret-1'));
    if (change.op === 'd') return;
    expect(row).toMatchObject({ email: hasher('secret-2'), phone: '***', born: null, plain: 'open' });
    expect('note' in row).toBe(false);
  });

  test('say what is unchanged, without a column that is dropped; NULL stays NULL', () => {
    const partial = tupleOf(['secret-1', UNCHANGED, null, null, UNCHANGED, 'open']);
    const { text, row } = decoded(columns, { op: 'u', after: partial });
    expect(text).toContain('"unchanged":["email"]');
    expect(row).toMatchObject({ email: undefined, phone: null, born: null });
  });

  test('are not made at all where a hash has no key', () => {
    expect(() => compileShapeEncoder(shapeOf(columns), { name: 's', database: 's' })).toThrow(/to be replaced/);
    expect(() => cellReplacer(columns[0] as (typeof columns)[number], null)).toThrow(/no key is configured/);
  });
});
