import { expect, it } from 'vitest';
import type { ColumnShape, TableShape } from '../log/event.ts';
import { createAwaiting } from './awaiting.ts';
import { createBaseRequests } from './base-requests.ts';
import type { RecordDecoder } from './decode-batch.ts';
import type { RawRecord } from './ingest-batch.ts';

const column = (
  name: string,
  pgType: string,
  keyPosition: number,
  kind: ColumnShape['kind'] = 'base',
): ColumnShape => ({
  name,
  typeOid: 1,
  typeModifier: -1,
  pgType,
  baseType: null,
  kind,
  enumLabels: null,
  notNull: true,
  keyPosition,
});
const shape: TableShape = {
  schema: 's',
  table: 't',
  oid: 1,
  version: 1,
  columns: [column('v', 'text', 0), column('b', 'bytea', 2), column('id', 'bigint', 1)],
};
const record = (offset: bigint, row: Record<string, unknown>): RawRecord => ({
  topic: 't',
  partition: 0,
  offset,
  key: null,
  value: Buffer.from(JSON.stringify(row)),
  header: null,
});
const decode = (({ value }: RawRecord) => ({ row: JSON.parse(String(value)) as object })) as unknown as RecordDecoder;

it('asks once for each key in the form that PostgreSQL reads, and again until the row has come', async () => {
  const sent: (readonly (readonly string[])[])[] = [];
  const waits: number[] = [];
  let next: () => void = () => undefined;
  let failures = 1;
  const requests = createBaseRequests({
    schemaName: 's',
    tableName: 't',
    request: async (schema, table, keys) => {
      expect([schema, table]).toEqual(['s', 't']);
      sent.push(keys);
      if (failures-- > 0) throw new Error('the reader does not stream');
      await Promise.resolve();
    },
    sleep: (ms) =>
      new Promise((resolve) => {
        waits.push(ms);
        next = resolve;
      }),
  });
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  const awaiting = createAwaiting(1_000_000);
  awaiting.put('a', record(1n, { id: 7, b: 'AP8=' }));
  awaiting.put('a', record(2n, { id: 7, b: 'AP8=', v: 'x' }));
  awaiting.put('b', record(3n, { id: 8, b: '' }));
  expect(requests.able(shape)).toBe(true);
  expect(requests.unasked(awaiting)).toBe(true);
  requests.ask(awaiting, decode, shape);
  requests.ask(awaiting, decode, shape);
  await settle();
  const both = [
    ['7', '\\x00ff'],
    ['8', '\\x'],
  ];
  expect(sent).toEqual([both]);
  expect([requests.pending('a'), requests.pending('c'), requests.unasked(awaiting)]).toEqual([true, false, false]);
  next();
  await settle();
  expect(sent).toEqual([both, both]);
  expect(waits).toEqual([3_000, 60_000]);
  awaiting.take('a');
  requests.ask(awaiting, decode, shape);
  expect([requests.pending('a'), requests.pending('b')]).toEqual([false, true]);
  next();
  await settle();
  expect(sent.at(-1)).toEqual([['8', '\\x']]);
  requests.close();
  next();
  await settle();
  expect(sent).toHaveLength(3);
});

it('asks for nothing whose key the source would not know again', () => {
  const request = (): Promise<void> => Promise.resolve();
  const of = (key: ColumnShape, ask: typeof request | null = request): boolean =>
    createBaseRequests({ schemaName: 's', tableName: 't', request: ask }).able({ ...shape, columns: [key] });
  expect(of(column('id', 'bigint', 1))).toBe(true);
  expect(of(column('id', 'bigint', 1), null)).toBe(false);
  expect(of(column('id', 'int[]', 1, 'array'))).toBe(false);
  expect(of(column('id', 'bigint', 0))).toBe(false);
  expect(of({ ...column('id', 'text', 1), replaced: { action: 'hash' } } as unknown as ColumnShape)).toBe(false);
});
