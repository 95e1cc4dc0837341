/** Where `contracts infer` finds tables: a database's catalog, Delta tables, topics, DDL, JSON Schema. */
import { resolve } from 'node:path';
import type { CatalogTable } from '../engine/catalog.ts';
import { readDdl } from '../engine/infer-ddl.ts';
import { readDeltaSchema } from '../engine/infer-delta.ts';
import { readJsonSchema } from '../engine/infer-json-schema.ts';
import { readSamples } from '../engine/infer-samples.ts';
import type { SampleColumn } from '../engine/infer-samples.ts';
import { CommandError, EXIT, usageError } from './exit-code.ts';
import { matchesGlob } from './name-glob.ts';
import type { Ports } from './ports.ts';

export const INFER_SOURCES = ['postgres', 'delta', 'topic', 'ddl', 'jsonschema'] as const;
export type InferSource = (typeof INFER_SOURCES)[number];

export interface InferRequest {
  readonly from: InferSource;
  /** URL, URI or file. */
  readonly input: string | null;
  readonly table: string | null;
  readonly keys: readonly string[];
  readonly config: string | null;
}

export interface FoundTable {
  readonly table: CatalogTable;
  /** What a sample showed; empty where there was none. */
  readonly samples: readonly SampleColumn[];
  /** What could not be read: with `--strict` an error. */
  readonly lost: readonly string[];
}

const SAMPLE_ROWS_MAX = 10_000;

export async function findTables(ports: Ports, request: InferRequest): Promise<FoundTable[]> {
  switch (request.from) {
    case 'postgres':
      return fromCatalog(ports, request);
    case 'delta':
      return [await fromDelta(ports, request)];
    case 'topic':
      return [await fromTopic(ports, request)];
    case 'ddl':
      return fromDdl(ports, request);
    case 'jsonschema':
      return [fromJsonSchema(ports, request)];
  }
}

const plain = (table: CatalogTable, lost: readonly string[] = []): FoundTable => ({ table, samples: [], lost });

async function fromCatalog(ports: Ports, request: InferRequest): Promise<FoundTable[]> {
  const session = await ports.catalog(inputOf(request, 'the database: postgres://…'));
  try {
    return chosen(await session.tables(), request.table).map((table) => plain(table));
  } finally {
    await session.close();
  }
}

async function fromDelta(ports: Ports, request: InferRequest): Promise<FoundTable> {
  const { schema, table } = named(request);
  const lake = await ports.lake(inputOf(request, 'the lake: a path, file:///… or s3://bucket/prefix'));
  const found = await lake.table(schema, table);
  if (found === null) throw usageError(`the lake has no table ${schema}.${table}`, 'correct --table');
  const keys = request.keys.length > 0 ? request.keys : await found.keys();
  return plain(readDeltaSchema(schema, table, found.fields, keys));
}

async function fromTopic(ports: Ports, request: InferRequest): Promise<FoundTable> {
  const { schema, table } = named(request);
  const session = await ports.stream(request.config);
  try {
    const sample = await session.sample(schema, table, { sinceMicros: null, rowsMax: SAMPLE_ROWS_MAX });
    if (sample === null || sample.rows.length === 0)
      throw usageError(`the log has no events of ${schema}.${table}`, 'correct --table, or wait for the first events');
    const keys = request.keys.length > 0 ? request.keys : sample.keys;
    const found = readSamples(sample.rows, { schema, table, keys });
    return { table: found.table, samples: found.columns, lost: [] };
  } finally {
    await session.close();
  }
}

function fromDdl(ports: Ports, request: InferRequest): FoundTable[] {
  const { tables, skipped } = readDdl(readInput(ports, request, 'the file with the DDL'));
  const lost = skipped.map(({ line, statement }) => `line ${line}: ${statement} was passed over`);
  return chosen(tables, request.table).map((table, index) => plain(table, index === 0 ? lost : []));
}

function fromJsonSchema(ports: Ports, request: InferRequest): FoundTable {
  const text = readInput(ports, request, 'the file with the schema');
  const { schema, table } = named(request);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError('USAGE', EXIT.usage, `${request.input ?? ''} is no JSON`, 'correct the file', error);
  }
  const result = readJsonSchema(value, schema, table, request.keys);
  if (result === null) throw usageError(`${request.input ?? ''} is no schema of an object`, 'it needs `properties`');
  return plain(
    result.table,
    result.ignored.map((item) => `${item} is not carried over`),
  );
}

function readInput(ports: Ports, request: InferRequest, what: string): string {
  const input = inputOf(request, what);
  const path = resolve(ports.cwd, input);
  if (ports.files.kind(path) !== 'file')
    throw new CommandError('PATH_MISSING', EXIT.usage, `${input} is no file`, `name ${what}`);
  return ports.files.read(path);
}

function inputOf({ from, input }: InferRequest, what: string): string {
  if (input === null) throw usageError(`--from ${from} needs ${what}`, `contracts infer --from ${from} INPUT`);
  return input;
}

function chosen(tables: readonly CatalogTable[], glob: string | null): readonly CatalogTable[] {
  const found = tables.filter(
    ({ schema, table }) => glob === null || matchesGlob(glob, table) || matchesGlob(glob, `${schema}.${table}`),
  );
  if (found.length === 0)
    throw usageError(`no table${glob === null ? ' there' : ` matches ${glob}`}`, 'correct --table');
  return found;
}

function named({ table, from }: InferRequest): { readonly schema: string; readonly table: string } {
  if (table === null || /[*?]/.test(table)) throw usageError(`--from ${from} needs --table SCHEMA.TABLE`, 'name one');
  const dot = table.indexOf('.');
  return dot < 0 ? { schema: 'public', table } : { schema: table.slice(0, dot), table: table.slice(dot + 1) };
}
