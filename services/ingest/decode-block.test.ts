import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { columnOf, dataRowOf, propertyRuns, shapeOf, type CellText } from '../../test/support/row-events.ts';
import { lsn, type LogOffset } from '../log/position.ts';
import type { LogBatch } from '../log/log.ts';
import type { TableShape } from '../log/event.ts';
import { addChunk, buildBatch, createBatchBuilder, encodeBlockChunk } from '../log/record-chunk.ts';
import { createRowBlockBuilder, type RowBlockBuilder } from '../log/row-block.ts';
import { createAwaiting } from './awaiting.ts';
import { assembleBatch } from './batch-builder.ts';
import { contractTools } from './contract-tools.ts';
import { BatchDecoder } from './decode-batch.ts';
import { createParkedKeys, type ParkedKeys } from './parked-keys.ts';
import { createRecordDecoder } from './record-decoder.ts';
import { buildTablePlan, type TablePlan } from './table-plan.ts';
import { planBlock } from './block-plan.ts';

const shape = shapeOf([
  columnOf('id', 'bigint', 1, { notNull: true }),
  columnOf('small', 'smallint'),
  columnOf('whole', 'integer', 0, { notNull: true }),
  columnOf('object', 'oid'),
  columnOf('price', 'numeric(12,2)'),
  columnOf('wide', 'numeric(38,18)'),
  columnOf('any', 'numeric'),
  columnOf('ratio', 'double precision'),
  columnOf('single', 'real'),
  columnOf('flag', 'boolean'),
  columnOf('name', 'character varying(8)'),
  columnOf('body', 'text'),
  columnOf('day', 'date'),
  columnOf('at', 'timestamp without time zone'),
  columnOf('seen', 'timestamp with time zone'),
  columnOf('bytes', 'bytea'),
  columnOf('doc', 'jsonb'),
  columnOf('ref', 'uuid'),
  columnOf('tags', 'text[]'),
  columnOf('numbers', 'integer[]'),
]);
const LSN = lsn(0x1_0000_0010n);
const BASE = 9_000n as LogOffset;

/** PostgreSQL's own texts, the rare ones among them, and some that it would not print. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  small: ['0', '-32768', '32767'],
  whole: ['0', '-2147483648', '2147483647', '12', '99999999999'],
  object: ['0', '4294967295'],
  price: ['0.00', '-0.01', '12.30', '9999999999.99', 'NaN', 'Infinity', '99999999999.00'],
  wide: ['0.000000000000000000', '12345678901234567890.123456789012345678', '-1.500000000000000000', 'NaN'],
  any: ['1', '0.5', '123456789012345678901234567890.1234567890123456789012345678901', 'NaN', '-Infinity'],
  ratio: [
    '0',
    '-0',
    '0.3333333333333333',
    '1e+20',
    '1.5',
    '123456789012345',
    '-2.2250738585072014e-308',
    'NaN',
    'Infinity',
  ],
  single: ['0.1', '16777216', '-Infinity', '3.4028235e+38'],
  flag: ['t', 'f'],
  name: ['', 'a', 'ü', 'eight ch', 'nine char', '日本語', '"\\\n'],
  body: ['', 'plain', 'tab\there', '€ \u{1F600}', 'x'.repeat(300)],
  day: ['2024-02-29', '0001-01-01', '1969-12-31', '10000-01-01', 'infinity', '0044-03-15 BC', '2023-02-29'],
  at: [
    '2024-01-02 03:04:05',
    '2024-01-02 03:04:05.1',
    '1969-12-31 23:59:59.999999',
    '-infinity',
    '15000-06-01 00:00:00',
    '0044-03-15 00:00:00 BC',
  ],
  seen: [
    '2024-01-02 03:04:05+00',
    '2024-02-29 23:59:59.123456+00',
    'infinity',
    '2300-01-01 00:00:00.5+00',
    '0001-01-01 00:00:00+00',
  ],
  bytes: ['\\x', '\\x00ff10', '\\xdeadbeef'],
  doc: ['{"a": 1}', '[]', '"text"', 'null'],
  ref: ['123e4567-e89b-12d3-a456-426614174000'],
  tags: ['{}', '{a,"b,c",NULL}', '{{a},{b}}', '[0:1]={a,b}', '{"\\"",""}'],
  numbers: ['{}', '{1,2,NULL}', '{{1,2},{3,4}}'],
};

const cellOf = (name: string): fc.Arbitrary<CellText> => {
  const texts = TEXTS[name];
  return texts === undefined ? fc.constant(null) : fc.option(fc.constantFrom(...texts), { nil: null, freq: 6 });
};
const IDS = ['-9223372036854775808', '9007199254740993', '123456789012345678', '0', '-7'];
const rowsOfShape: fc.Arbitrary<CellText[][]> = fc
  .array(fc.tuple(...shape.columns.slice(1).map(({ name }) => cellOf(name))), { minLength: 1, maxLength: 40 })
  .map((rows) => rows.map((row, i) => [IDS[i] ?? String(i * 1_000_003), ...row]));

function planFor(text: string, of: TableShape = shape): TablePlan {
  const contract = contractTools.parse(text, 'contract');
  const table = contractTools.select(contract, of);
  const identity = { id: contract.id, version: contract.version, hash: 'h', text };
  return buildTablePlan({
    table,
    contract: identity,
    gate: contractTools.compile(contract, of),
    shape: of,
    lake: null,
    hasher: null,
  });
}

/** Compiling a contract takes longer than everything else here. */
const plans = new Map<string, TablePlan>();
function knownPlan(text: string): TablePlan {
  const known = plans.get(text) ?? planFor(text);
  plans.set(text, known);
  return known;
}

const INFERRED = contractTools.infer(shape, 'shop');
/** Rules of every kind that is asked of single values, and one over several columns. */
const STRICT = INFERRED.replace(/(\n +)properties:\n/, (_, indent: string) =>
  [
    `${indent}quality:`,
    `${indent}  - {id: priced, type: custom, engine: cel, implementation: 'row.flag != true || row.price != null', severity: error, customProperties: [{property: scope, value: row}]}`,
    `${indent}properties:\n`,
  ].join(''),
);

function blockChunk(rows: readonly CellText[][], of: TableShape = shape): Buffer {
  const builder = createRowBlockBuilder();
  for (const row of rows) addRow(builder, row);
  const source = { name: 'shop', database: 'shop' };
  const head = {
    shape: of,
    source,
    epoch: 3,
    lsn: LSN,
    firstOrd: 4,
    committedAtMicros: 1_700_000_000_123_456n,
    atMs: 5,
  };
  return Buffer.concat(encodeBlockChunk(builder.finish(head), rows.length, BASE, 77));
}

function addRow(builder: RowBlockBuilder, cells: readonly (CellText | Buffer)[]): void {
  const row = dataRowOf(cells);
  builder.add(row, 0, row.length, 1);
}

function asBlock(chunk: Buffer, from: number, to: number): LogBatch {
  const nothing = {
    offsets: new BigInt64Array(0),
    keys: [],
    values: [],
    headers: [],
    timestampsMs: new Float64Array(0),
  };
  const block = { bytes: chunk.subarray(32), base: BASE, from, to };
  return { ...nothing, topic: 't', partition: 2, nextOffset: (BASE + BigInt(to)) as LogOffset, bytes: 0, block };
}

function asRecords(chunk: Buffer, from: number, to: number): LogBatch {
  const builder = createBatchBuilder();
  addChunk(builder, chunk, BASE + BigInt(from), BASE + BigInt(to));
  return { ...buildBatch(builder, 't', 2, (BASE + BigInt(to)) as LogOffset), bytes: 0 };
}

interface Seen {
  readonly rows: readonly unknown[];
  readonly rest: unknown;
}

function decode(plan: TablePlan, batch: LogBatch, parkedKeys: ParkedKeys, of: TableShape = shape): Seen {
  const decoder = new BatchDecoder({
    table: 'public.orders',
    plan,
    decode: createRecordDecoder({ byVersion: () => of }, of),
    evolve: (_, current) => current,
    parkedKeys,
    awaiting: createAwaiting(1024),
    resolvedLsn: 0n,
    // More than comes: what memory was taken for must not show.
    expected: 40_000,
  });
  decoder.add(batch);
  const decoded = decoder.finish();
  const head = {
    queryId: 'q',
    queryName: 'q',
    schemaName: 'public',
    tableName: 'orders',
    topic: 't',
    timestampMs: 0,
    mark: null,
  };
  const { keyIds, keys, keyCount, kinds, committedAt, shapeVersions, parked, counts, violations, ...rest } =
    assembleBatch(head, decoded, []);
  return {
    rows: [...rest.rows()],
    rest: {
      keyIds,
      keys,
      keyCount,
      kinds,
      committedAt,
      shapeVersions,
      parked,
      counts,
      violations,
      ops: rest.ops,
      ords: rest.ords,
    },
  };
}

function bothWays(
  text: string,
  rows: readonly CellText[][],
  from: number,
  to: number,
  parked = createParkedKeys,
): void {
  const chunk = blockChunk(rows);
  const plan = knownPlan(text);
  expect(decode(plan, asBlock(chunk, from, to), parked())).toEqual(decode(plan, asRecords(chunk, from, to), parked()));
}

describe('a block of rows', () => {
  test('is decoded column by column under an inferred contract', () => {
    expect(
      planBlock(shape, planFor(INFERRED))?.fields.map(({ field, parser }) => [
        field.sourceName,
        typeof parser === 'string' ? parser : 'numbers',
      ]),
    ).toEqual([
      ['id', 'numbers'],
      ['small', 'numbers'],
      ['whole', 'numbers'],
      ['object', 'numbers'],
      ['price', 'numbers'],
      ['wide', 'numbers'],
      ['any', 'cell'],
      ['ratio', 'numbers'],
      ['single', 'numbers'],
      ['flag', 'numbers'],
      ['name', 'text'],
      ['body', 'text'],
      ['day', 'numbers'],
      ['at', 'numbers'],
      ['seen', 'numbers'],
      ['bytes', 'cell'],
      ['doc', 'text'],
      ['ref', 'text'],
      ['tags', 'cell'],
      ['numbers', 'cell'],
    ]);
  });

  test(
    'gives the rows, the parked events and the counts that its records give, whatever stands in it',
    { timeout: 60_000 },
    () => {
      fc.assert(
        fc.property(rowsOfShape, (rows) => bothWays(INFERRED, rows, 0, rows.length)),
        { numRuns: propertyRuns(25) },
      );
    },
  );

  test('and from the middle of it, under row rules too', { timeout: 60_000 }, () => {
    expect(STRICT).not.toBe(INFERRED);
    fc.assert(
      fc.property(rowsOfShape, fc.nat(), fc.nat(), (rows, a, b) => {
        const from = a % rows.length;
        bothWays(STRICT, rows, from, from + 1 + (b % (rows.length - from)));
      }),
      { numRuns: propertyRuns(15) },
    );
  });

  test('is judged by the rules of its columns', () => {
    const small = shapeOf([
      columnOf('id', 'integer', 1),
      columnOf('status', 'text'),
      columnOf('total', 'numeric(8,2)'),
    ]);
    const text = `apiVersion: v3.1.0
kind: DataContract
id: c
version: 1.0.0
status: active
schema:
  - name: orders
    physicalName: public.orders
    properties:
      - {name: id, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true, logicalTypeOptions: {minimum: 2}}
      - name: status
        logicalType: string
        physicalType: text
        required: true
        logicalTypeOptions: {minLength: 1}
        quality: [{id: status_values, metric: invalidValues, arguments: {validValues: [open, closed, '']}, mustBe: 0, severity: error}]
      - {name: total, logicalType: number, physicalType: 'numeric(8,2)', logicalTypeOptions: {maximum: 100}}
`;
    const rows: CellText[][] = [
      ['1', 'open', '1.00'],
      ['2', 'open', '1.00'],
      ['3', '', '1.00'],
      ['4', 'lost', '1.00'],
      ['5', null, '1.00'],
      ['6', 'closed', '100.01'],
      ['7', 'closed', '100.00'],
      ['8', 'closed', null],
    ];
    const chunk = blockChunk(rows, small);
    const decoder = (batch: LogBatch): Seen => decode(planFor(text, small), batch, createParkedKeys(), small);
    const seen = decoder(asBlock(chunk, 0, rows.length));
    expect(seen).toEqual(decoder(asRecords(chunk, 0, rows.length)));
    expect(seen.rows.map((row) => (row as { values: { id: number } }).values.id)).toEqual([2, 7, 8]);
    expect(seen.rest).toMatchObject({ counts: { read: 8 }, ords: Int32Array.of(6, 16, 18) });
  });

  test('keeps to the parked keys', () => {
    const rows: CellText[][] = [0, 1, 2].map((i) => [
      IDS[i] ?? '',
      ...shape.columns.slice(1).map(({ name }) => TEXTS[name]?.[0] ?? null),
    ]);
    const parked = (): ParkedKeys =>
      createParkedKeys([[9007199254740993n, [{ id: 'p', epoch: 1, lsn: 5n, ord: 0, absentColumns: ['body'] }]]]);
    bothWays(INFERRED, rows, 0, 3, parked);
  });

  test('in bytes that are no UTF-8 goes the way of its records', () => {
    const small = shapeOf([columnOf('id', 'integer', 1), columnOf('body', 'text')]);
    const builder = createRowBlockBuilder();
    // Together the two are one character, each by itself is none.
    addRow(builder, ['1', Buffer.of(0xc3)]);
    addRow(builder, ['2', Buffer.of(0xa9)]);
    const head = {
      shape: small,
      source: { name: 's', database: 'd' },
      epoch: 1,
      lsn: LSN,
      firstOrd: 0,
      committedAtMicros: 0n,
      atMs: 0,
    };
    const chunk = Buffer.concat(encodeBlockChunk(builder.finish(head), 2, BASE, 0));
    const text = contractTools.infer(small, 'shop');
    const seen = decode(planFor(text, small), asBlock(chunk, 0, 2), createParkedKeys(), small);
    expect(seen).toEqual(decode(planFor(text, small), asRecords(chunk, 0, 2), createParkedKeys(), small));
    expect(seen.rows).toEqual([]);
  });
});
