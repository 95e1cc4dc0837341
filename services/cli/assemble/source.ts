/** The configured PostgreSQL: parameters are read again from their files and variables when the server refuses them. */
import { parseConnection } from '../../reader/connection.ts';
import { openPostgresSource } from '../../reader/pg-source.ts';
import type { PostgresSource } from '../../reader/source.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';

/** `reload` gives the configuration as it reads now, for a secret that was rotated. */
export async function openSource(config: Config, reload: () => Config): Promise<PostgresSource> {
  requireSource(config);
  return openPostgresSource((refresh) => connectionOf(refresh ? reload() : config));
}

/** `source.replica`, which verify reads so that the primary is spared. */
export function openReplica(config: Config, reload: () => Config): Promise<PostgresSource> {
  return openPostgresSource((refresh) => parseConnection((refresh ? reload() : config).source.replica));
}

export function connectionOf(config: Config): ReturnType<typeof parseConnection> {
  const { source } = config;
  return parseConnection(source.postgres, {
    host: source.host,
    port: source.port,
    database: source.database,
    user: source.user,
    password: source.password,
    sslmode: source.sslmode,
    sslrootcert: source.sslrootcert,
    sslcert: source.sslcert,
    sslkey: source.sslkey,
  });
}

const namesSource = ({ source }: Config): boolean => source.postgres !== null || source.host !== null;

/** A stream behind Debezium's topics: its tables are described by contracts. */
export const needsNoSource = (config: Config): boolean => config.log.debezium.topics.length > 0 && !namesSource(config);

function requireSource(config: Config): void {
  if (namesSource(config)) return;
  throw new ConfigError(
    'source.postgres is not set',
    'give source.postgres as postgres://user:password@host:5432/database, or run `sluice init --postgres URL`',
  );
}
