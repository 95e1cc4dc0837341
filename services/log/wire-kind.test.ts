import { expect, test } from 'vitest';
import { mapColumn, type WireForm as TableForm } from '../../contracts/engine/type-table.ts';
import { columnOf } from '../../test/support/row-events.ts';
import type { ColumnShape } from './event.ts';
import { WireKind, wireFormOf, type WireKindCode } from './wire-kind.ts';

const KIND_OF: Readonly<Record<TableForm, WireKindCode>> = {
  boolean: WireKind.boolean,
  int16: WireKind.integer,
  int32: WireKind.integer,
  int64: WireKind.integer,
  uint32: WireKind.integer,
  float32: WireKind.float,
  float64: WireKind.float,
  decimal: WireKind.text,
  text: WireKind.text,
  base64: WireKind.bytea,
  date: WireKind.text,
  timestamp: WireKind.timestamp,
  timestamptz: WireKind.timestamptz,
  array: WireKind.array,
};

const TYPES = [
  'boolean',
  'smallint',
  'integer',
  'bigint',
  'oid',
  'xid',
  'real',
  'double precision',
  'numeric',
  'numeric(12,2)',
  'numeric(5,-2)',
  'money',
  'character(3)',
  'character varying(20)',
  'text',
  'citext',
  'name',
  'bytea',
  'date',
  'time without time zone',
  'time(3) with time zone',
  'timestamp without time zone',
  'timestamp(3) without time zone',
  'timestamp with time zone',
  'timestamp(0) with time zone',
  'interval',
  'uuid',
  'json',
  'jsonb',
  'xml',
  'inet',
  'cidr',
  'macaddr',
  'macaddr8',
  'bit(4)',
  'bit varying(9)',
  'tsvector',
  'tsquery',
  'int4range',
  'int4multirange',
  'point',
  'box',
  'polygon',
  'hstore',
  'pg_lsn',
  '"char"',
  'xid8',
  'regclass',
  'public.order_status',
  'int2vector',
];

const domain = (base: string): ColumnShape => columnOf('c', 'public.d', 0, { kind: 'domain', baseType: base });

test.each([
  ...TYPES.map((type) => columnOf('c', type)),
  ...TYPES.map((type) => columnOf('c', `${type}[]`)),
  ...TYPES.map(domain),
  domain('integer[]'),
  columnOf('c', 'public.order_status', 0, { kind: 'enum', enumLabels: ['a'] }),
  columnOf('c', 'public.pair', 0, { kind: 'composite' }),
])('the codec and the type table give one form: $pgType, $kind of $baseType', (column) => {
  const mapping = mapColumn(column);
  const form = wireFormOf(column);
  expect(form.kind).toBe(KIND_OF[mapping.wire]);
  if (mapping.element !== null) expect(form.element).toBe(KIND_OF[mapping.element.wire]);
});
