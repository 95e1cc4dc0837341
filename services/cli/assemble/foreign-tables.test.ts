import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';
import { foreignTables } from './foreign-tables.ts';

const CONTRACT = `apiVersion: v3.1.0
kind: DataContract
id: shop.public.orders
version: 1.0.0
status: active
schema:
  - name: orders
    logicalType: object
    physicalName: orders
    properties:
      - {name: id, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: total, logicalType: number, physicalType: 'numeric(12,2)'}
      - {name: tags, logicalType: array, physicalType: 'text[]', items: {logicalType: string}}
`;

const config = (topics: string) =>
  parseConfig({
    text: `log: {kind: kafka, brokers: [b], debezium: {topics: [${topics}], decimals: string}}`,
    file: 'f',
    env: {},
    readFile: () => '',
  });
const files = (text: string | null) => ({
  load: () => Promise.resolve(text === null ? null : { file: 'c', text }),
  save: () => Promise.resolve(),
});

describe('Debezium topics from the configuration', () => {
  it('takes the columns from the contract and the modes from the configuration', async () => {
    const [table] = (await foreignTables(config('db.public.orders'), files(CONTRACT))) ?? [];
    expect(table?.topic).toBe('db.public.orders');
    expect(table?.modes).toMatchObject({ decimals: 'string', times: 'adaptive' });
    expect(
      table?.shape.columns.map(({ name, pgType, kind, baseType, keyPosition }) => [
        name,
        pgType,
        kind,
        baseType,
        keyPosition,
      ]),
    ).toEqual([
      ['id', 'bigint', 'base', null, 1],
      ['total', 'numeric(12,2)', 'base', null, 0],
      ['tags', 'text[]', 'array', 'text', 0],
    ]);
  });

  it('is not there without topics, and says what is missing with them', async () => {
    expect(await foreignTables(config(''), files(null))).toBeNull();
    await expect(foreignTables(config('db.public.orders'), files(null))).rejects.toThrow(/needs a contract/);
    await expect(foreignTables(config('orders'), files(CONTRACT))).rejects.toBeInstanceOf(ConfigError);
    await expect(foreignTables(config('db.public.orders'), files('kind: x'))).rejects.toThrow(/not valid/);
  });
});
