/** Every table that another engine wrote, at every version with expected rows, read by contents. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bytesSource } from '../../lakehouse/parquet/byte-source.ts';
import { decodeParquet } from '../../lakehouse/parquet/decode.ts';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { ColumnBatch } from '../../lakehouse/table/column.ts';
import type { DeltaType, StructType } from '../../lakehouse/table/schema.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { HAS_DELTA_TABLES, deltaTables, type DeltaTable } from './delta-tables.ts';

if (!HAS_DELTA_TABLES) process.stdout.write('skipped: rows of foreign tables: ../shared/delta-tables is not there\n');

function parquetFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.parquet'))
    .map((name) => join(folder, name));
}

/** Expected rows were written by Spark: without column mapping, partition columns in the file. */
function plain(type: DeltaType): DeltaType {
  if (typeof type === 'string') return type;
  switch (type.type) {
    case 'struct':
      return plainStruct(type);
    case 'array':
      return { ...type, elementType: plain(type.elementType) };
    case 'map':
      return { ...type, keyType: plain(type.keyType), valueType: plain(type.valueType) };
  }
}
const plainStruct = (schema: StructType): StructType => ({
  type: 'struct',
  fields: schema.fields.map((field) => ({ ...field, type: plain(field.type), metadata: {} })),
});

async function* expectedBatches(folder: string, schema: StructType): AsyncGenerator<ColumnBatch> {
  for (const file of parquetFiles(folder))
    yield decodeParquet(bytesSource(file, readFileSync(file)), plainStruct(schema));
}

async function readVersion(table: DeltaTable, version: number | null): Promise<{ schema: StructType; rows: string[] }> {
  const options = version === null ? {} : { version: BigInt(version) };
  const snapshot = await openSnapshot(createFileStore(table.path), options);
  const schema = scanSchema(snapshot);
  return { schema, rows: await canonicalRows(schema, scan(snapshot)) };
}

describe.skipIf(!HAS_DELTA_TABLES)('tables of the Delta acceptance tests', () => {
  for (const table of deltaTables('dat')) {
    for (const version of readdirSync(join(table.path, '..', 'expected'))) {
      it(`${table.name} at ${version} has the expected rows`, async () => {
        const folder = join(table.path, '..', 'expected', version, 'table_content');
        const { schema, rows } = await readVersion(table, version === 'latest' ? null : Number(version.slice(1)));
        const expected = await canonicalRows(schema, expectedBatches(folder, schema));
        expect(expected.length).toBeGreaterThan(0);
        expect(rows).toEqual(expected);
      });
    }
  }
});

/** Tables whose expected folder holds no rows to compare, or that must fail (log-state.test.ts has the error). */
const NO_ROWS = new Set(['golden/data-reader-absolute-paths-escaped-chars']);

/** Its partition timestamp has no zone; the writer's (UTC-7) stands nowhere, so that it reads as UTC. */
const ZONED = new Set(['golden/data-reader-partition-values']);

describe.skipIf(!HAS_DELTA_TABLES)('golden tables', () => {
  for (const table of deltaTables('golden')) {
    const { expected } = table;
    if (expected === null || NO_ROWS.has(table.name) || parquetFiles(expected).length === 0) continue;
    it(`${table.name} has the expected rows`, async () => {
      const { schema, rows } = await readVersion(table, null);
      const wanted = await canonicalRows(schema, expectedBatches(expected, schema));
      expect(rows).toEqual(ZONED.has(table.name) ? wanted.map((row) => row.replace('T18:11:11', 'T11:11:11')) : wanted);
    });
  }
});
