/**
 * Server kinds of the Open Data Contract Standard and their own keys (ODCS 3.1.0 and 3.2.0, "Infrastructure and servers").
 * `key*` is required; `:uri`, `:port` and `:int` name the type, text otherwise.
 */
import type { Fields, Shape } from './shape.ts';
import { uri } from './text-formats.ts';

type KeyList = string;

const DATABASE = 'host* port:port database*';
const SERVERS_31: Readonly<Record<string, KeyList>> = {
  api: 'location*:uri',
  athena: 'stagingDir* schema* catalog regionName',
  azure: 'location*:uri format* delimiter',
  bigquery: 'project* dataset*',
  clickhouse: 'host* port*:port database*',
  databricks: 'host catalog* schema*',
  denodo: 'host* port*:port database',
  dremio: 'host* port*:port schema',
  duckdb: 'database* schema',
  glue: 'account* database* location:uri format',
  cloudsql: 'host* port*:port database* schema*',
  db2: 'host* port*:port database* schema',
  hive: DATABASE,
  impala: DATABASE,
  informix: DATABASE,
  zen: DATABASE,
  custom:
    'account catalog database dataset delimiter endpointUrl:uri format host location:uri path port:port project region regionName schema serviceName stagingDir warehouse stream',
  kafka: 'host* format',
  kinesis: 'region format',
  local: 'path* format*',
  mysql: 'host* port*:port database*',
  oracle: 'host* port*:port serviceName*',
  postgresql: 'host* port*:port database* schema*',
  postgres: 'host* port*:port database* schema*',
  presto: 'host* catalog schema',
  pubsub: 'project*',
  redshift: 'host database* schema* region account',
  s3: 'location*:uri endpointUrl:uri format delimiter',
  sftp: 'location*:uri format delimiter',
  snowflake: 'host port:port account* database* schema* warehouse',
  sqlserver: 'host* port:port database* schema*',
  synapse: 'host* port*:port database*',
  trino: 'host* port*:port catalog* schema*',
  vertica: 'host* port*:port database* schema*',
};
/** What 3.2.0 adds or loosens. */
const SERVERS_32: Readonly<Record<string, KeyList>> = {
  ...SERVERS_31,
  athena: 'stagingDir schema* catalog regionName workgroup',
  btrieve: DATABASE,
  exasol: 'host* port:port schema',
  fastobjects: 'database* host port:port',
  ingres: DATABASE,
  poet: 'database* host port:port',
  hana: 'host* port:port database schema',
  iceberg: 'catalog* catalogUrl*:uri namespace warehouse',
  teradata: 'host* port:port database',
  vectorwise: DATABASE,
  versant: 'database* host port:port',
};
const WITH_ENCODING_32 = ['azure', 'glue', 'custom', 'kafka', 'kinesis', 'local', 's3', 'sftp'];

export type Minor = '3.0' | '3.1' | '3.2';

export function serverTypes(minor: Minor): readonly string[] {
  return Object.keys(minor === '3.2' ? SERVERS_32 : SERVERS_31).toSorted();
}

/** The keys that a server of this type has beside the common ones; empty for an unknown type. */
export function serverFields(type: string, minor: Minor): Fields {
  const table = minor === '3.2' ? SERVERS_32 : SERVERS_31;
  const keys = Object.hasOwn(table, type) ? table[type] : undefined;
  if (keys === undefined) return {};
  const fields: Record<string, { shape: Shape; required: boolean }> = {};
  for (const key of keys.split(' ')) {
    const [name = '', kind = 'text'] = key.split(':');
    fields[name.replace('*', '')] = { shape: keyShape(kind, minor), required: name.endsWith('*') };
  }
  if (minor === '3.2' && WITH_ENCODING_32.includes(type))
    fields['encoding'] = { shape: { kind: 'text' }, required: false };
  return fields;
}

function keyShape(kind: string, minor: Minor): Shape {
  if (kind === 'uri') return { kind: 'text', pattern: uri };
  if (kind !== 'port') return { kind: 'text' };
  const port: Shape = { kind: 'integer' };
  return minor === '3.2' ? { kind: 'either', options: [port, { kind: 'text' }] } : port;
}
