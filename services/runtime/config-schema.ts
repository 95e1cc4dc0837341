/** sluice.yaml: every key, its type, default and meaning. One place; validation, environment names and help come from it. */
import { DEFAULT_TRIGGER_LOCAL } from './duration.ts';

type Leaf =
  | { readonly kind: 'string' | 'boolean' | 'integer' | 'duration' | 'list' | 'bytes'; readonly values?: never }
  | { readonly kind: 'choice'; readonly values: readonly string[] };
export type Field = Leaf & {
  readonly default: unknown;
  readonly nullable?: boolean;
  readonly minimum?: number;
  readonly help: string;
};
export type Section = { readonly [key: string]: Field | Section };

const text = (fallback: string | null, help: string): Field => ({
  kind: 'string',
  default: fallback,
  nullable: fallback === null,
  help,
});
const integer = (fallback: number | null, minimum: number, help: string): Field => ({
  kind: 'integer',
  default: fallback,
  nullable: fallback === null,
  minimum,
  help,
});
const flag = (fallback: boolean, help: string): Field => ({ kind: 'boolean', default: fallback, help });
const choice = (values: readonly string[], fallback: string | null, help: string): Field => ({
  kind: 'choice',
  values,
  default: fallback,
  nullable: fallback === null,
  help,
});
const tls = (who: string): Section => ({
  enabled: flag(false, `speak TLS to ${who}`),
  ca: text(null, 'path of the private CA, PEM'),
  cert: text(null, 'path of the client certificate, PEM'),
  key: text(null, 'path of the client key, PEM'),
  rejectUnauthorized: flag(true, 'verify the server certificate'),
});

export const CONFIG_SCHEMA = {
  name: text('sluice', 'topic prefix, slot and publication default, Delta appId'),
  source: {
    postgres: text(null, 'connection URL, or host/port/database/user/password below'),
    host: text(null, 'database host'),
    port: integer(null, 1, 'database port'),
    database: text(null, 'database name'),
    user: text(null, 'role with REPLICATION'),
    password: text(null, 'password; ${file:…} is read again after an authentication failure'),
    sslmode: choice(['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'], null, 'as libpq means it'),
    sslrootcert: text(null, 'path of the CA, PEM'),
    sslcert: text(null, 'path of the client certificate, PEM'),
    sslkey: text(null, 'path of the client key, PEM'),
    replica: text(null, 'connection URL of a replica for verify'),
    tables: { kind: 'list', default: ['public.*'], help: 'globs on schema.table' } as Field,
    newTables: choice(['backfill', 'announce', 'ignore'], 'backfill', 'what happens with a table created later'),
    slot: text(null, 'replication slot; default sluice_<name>'),
    publication: text(null, 'publication; default sluice_<name>; created if absent and allowed'),
    snapshot: {
      parallel: integer(2, 1, 'chunks read at once'),
      chunkRows: integer(20_000, 100, 'rows a chunk aims at'),
    },
    heartbeat: {
      kind: 'duration',
      default: '10s',
      help: 'time between two looks at the slot, the publication, the tables and their topics; of an idle source between two marks',
    } as Field,
    streaming: choice(
      ['off', 'on'],
      'off',
      'whether the server sends large transactions while they run; they are then kept under state',
    ),
    walBudget: { kind: 'bytes', default: null, nullable: true, help: 'WAL that the slot may hold back' } as Field,
    onExceed: choice(['alert', 'drop-slot'], 'alert', 'what happens above walBudget'),
  },
  log: {
    kind: choice(['embedded', 'kafka'], 'embedded', 'embedded: one machine, nothing to install'),
    path: text(null, 'folder of the embedded log; default <state>/log'),
    brokers: { kind: 'list', default: [], help: 'kafka: host:port, …' } as Field,
    partitions: integer(1, 1, 'partitions of a new data topic'),
    replicationFactor: integer(1, 1, 'copies of a new topic'),
    retention: { kind: 'duration', default: '7d', help: 'how long events are kept' } as Field,
    debezium: {
      topics: {
        kind: 'list',
        default: [],
        help: "topics that Debezium writes, read by the stream instead of our reader's",
      } as Field,
      decimals: choice(['precise', 'string', 'double'], 'precise', 'its decimal.handling.mode'),
      times: choice(
        ['adaptive', 'adaptive_time_microseconds', 'connect', 'isostring'],
        'adaptive',
        'its time.precision.mode',
      ),
      binary: choice(['bytes', 'base64', 'base64-url-safe', 'hex'], 'bytes', 'its binary.handling.mode'),
      placeholder: text('__debezium_unavailable_value', 'its unavailable.value.placeholder'),
    },
    ssl: tls('the brokers'),
    sasl: {
      mechanism: choice(['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer'], null, 'how to log in'),
      username: text(null, 'user name'),
      password: text(null, 'password'),
      token: text(null, 'oauthbearer token'),
    },
  },
  contracts: text('./contracts', 'folder of the *.odcs.yaml files'),
  privacy: {
    key: text(null, 'secret for `piiAction: hash`, 16 bytes or more; reader and stream need the same'),
  },
  lake: {
    uri: text('./lake', 'a path, file:///…, or s3://bucket/prefix'),
    s3: {
      endpoint: text(null, 'another server than AWS'),
      region: text('us-east-1', 'region'),
      forcePathStyle: flag(true, 'bucket in the path'),
      kmsKeyId: text(null, 'server-side encryption key'),
      ssl: {
        ca: text(null, 'path of the private CA, PEM; an https endpoint is always verified'),
        cert: text(null, 'path of the client certificate, PEM'),
        key: text(null, 'path of the client key, PEM'),
      },
    },
    cdf: flag(false, 'write the change data feed: exact pre- and post-images, at several times the cost of a batch'),
    deletionVectors: flag(true, 'false: copy-on-write tables'),
  },
  stream: {
    trigger: {
      kind: 'string',
      default: null,
      nullable: true,
      help: `duration or available-now; default ${DEFAULT_TRIGGER_LOCAL} on a local lake, 10s on s3`,
    } as Field,
    maxOffsetsPerTrigger: integer(100_000, 1, 'events a batch and table, at most'),
    checkpoint: text(null, 'default <lake>/_sluice/checkpoints/<query>'),
    foreachBatch: text(null, 'module whose `foreachBatch` export is called with every batch'),
    memory: { kind: 'bytes', default: '128MB', help: 'bytes of events in hand, all tables together' } as Field,
  },
  state: text('./.sluice', 'key index, caches: rebuildable; the embedded log: data'),
  http: {
    host: text('127.0.0.1', 'listen address'),
    port: integer(8950, 0, 'listen port; 0 = any'),
    token: text(null, 'bearer token that /status and /metrics then ask for'),
    tls: {
      cert: text(null, 'path of the server certificate, PEM'),
      key: text(null, 'path of the server key, PEM'),
      ca: text(null, 'path of the CA of client certificates, PEM; clients must then show one'),
    },
  },
  logging: { level: choice(['debug', 'info', 'warn', 'error'], 'info', 'least severe level written') },
} as const satisfies Section;

export function isField(node: Field | Section): node is Field {
  return typeof (node as { kind?: unknown }).kind === 'string';
}
