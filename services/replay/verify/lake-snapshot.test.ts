import { expect, it } from 'vitest';
import { createMemoryStore } from '../../../lakehouse/store/memory-store.ts';
import { buildColumn } from '../../../lakehouse/table/column-build.ts';
import { createTable } from '../../../lakehouse/table/create.ts';
import type { StructType } from '../../../lakehouse/table/schema.ts';
import { appendBatch } from '../../../lakehouse/write/append-batch.ts';
import { columnOf, shapeOf } from '../../../test/support/row-events.ts';
import { lakeSnapshot } from './lake-snapshot.ts';

const field = (name: string, type: 'integer' | 'long') => ({ name, type, nullable: true, metadata: {} }) as const;

it.each([true, false])('tells of each row the event that wrote it (position columns: %s)', async (positions) => {
  const fields = [field('id', 'integer')];
  const schema: StructType = {
    type: 'struct',
    fields: positions ? [...fields, field('_sluice_lsn', 'long'), field('_sluice_ord', 'integer')] : fields,
  };
  const columns = [
    buildColumn('integer', 2, (row) => row),
    buildColumn('long', 2, (row) => [100n, 200n][row]),
    buildColumn('integer', 2, (row) => [0, 7][row]),
  ];
  const table = await createTable(createMemoryStore(), { schema });
  const { snapshot } = await appendBatch(table, {
    rowCount: 2,
    names: schema.fields.map(({ name }) => name),
    columns: columns.slice(0, schema.fields.length),
  });
  const shape = shapeOf([columnOf('id', 'integer', 1, { notNull: true })], { table: 't', version: 1 });
  const images = await lakeSnapshot(snapshot, shape).rows(['1:0', '1:1']);
  expect([...images].map(([key, { version }]) => [key, version])).toEqual([
    ['1:0', positions ? '100 0' : undefined],
    ['1:1', positions ? '200 7' : undefined],
  ]);
});
