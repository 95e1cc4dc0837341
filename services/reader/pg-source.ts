/**
 * ADAPTER of the source port, and the only importer of the PostgreSQL driver. The driver connects, negotiates TLS and
 * authenticates (SCRAM included); the walsender's connection is pg-logical-replication's, with its acknowledging off in both
 * ways (it confirms a position right after it was emitted, and again by its timer). From then on wire-session.ts speaks.
 */
import { readFile } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import type { ConnectionOptions, PeerCertificate } from 'node:tls';
import pg from 'pg';
import { LogicalReplicationService } from 'pg-logical-replication';
import { startupOptions, tlsAttempts, type SourceConnection, type TlsAttempt } from './connection.ts';
import { ReaderError } from './reader-error.ts';
import { knownServerError, POOLED_REMEDY } from './server-error.ts';
import type { ConnectionProvider, PostgresSource, ReplicationSession, SourceSession } from './source.ts';
import { createWireSession } from './wire-session.ts';

/** A source that asks `provide` for its parameters before every connect. */
export async function openPostgresSource(provide: ConnectionProvider): Promise<PostgresSource> {
  const connect = async (purpose: string, replication: boolean): Promise<ReplicationSession> => {
    try {
      return await connectOnce(await provide(false), purpose, replication);
    } catch (error) {
      // A rotated secret: read it again, once.
      if (!(error instanceof ReaderError) || error.code !== 'SOURCE_AUTHENTICATION') throw error;
      return connectOnce(await provide(true), purpose, replication);
    }
  };
  return {
    connection: await provide(false),
    session: async (purpose): Promise<SourceSession> => connect(purpose, false),
    replication: async (purpose) => connect(purpose, true),
  };
}

async function connectOnce(
  connection: SourceConnection,
  purpose: string,
  replication: boolean,
): Promise<ReplicationSession> {
  const attempts = tlsAttempts(connection);
  let first: ReaderError | null = null;
  for (const attempt of attempts) {
    try {
      return await dial(connection, attempt, purpose, replication);
    } catch (error) {
      const failure = connectError(error, connection, purpose);
      // That one way does not speak TLS says less than what the other way was told.
      if (first === null || first.code === 'SOURCE_TLS') first = failure;
      // libpq's second try of `allow` and `prefer`: another way to speak, not another password or database.
      if (failure.code !== 'SOURCE_TLS' && failure.code !== 'SOURCE_AUTHENTICATION') throw failure;
    }
  }
  throw first ?? new ReaderError('SOURCE_UNREACHABLE', `${purpose}: no way to connect`);
}

interface DriverConnection {
  readonly stream: Duplex;
}
interface DriverClient {
  readonly processID: number | null;
}

async function dial(
  connection: SourceConnection,
  attempt: TlsAttempt,
  purpose: string,
  replication: boolean,
): Promise<ReplicationSession> {
  const config: pg.ClientConfig = {
    host: connection.host,
    port: connection.port,
    database: connection.database,
    user: connection.user,
    // A function keeps the driver from looking for a password in files and the environment.
    password: () => connection.password ?? '',
    ssl: attempt.tls ? await tlsOptions(connection, attempt) : false,
    application_name: connection.applicationName,
    options: startupOptions(connection),
    connectionTimeoutMillis: connection.connectTimeoutMs,
    keepAlive: true,
    ...(connection.channelBinding ? { enableChannelBinding: true } : {}),
  };
  const client = replication ? await replicationClient(config) : await plainClient(config);
  const socket = (client as unknown as { connection: DriverConnection }).connection.stream;
  const session = createWireSession(socket, {
    backendPid: (client as unknown as DriverClient).processID ?? 0,
    purpose,
    end: async () => client.end(),
  });
  try {
    await session.open();
  } catch (error) {
    await session.close();
    throw error;
  }
  return session;
}

async function plainClient(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(config);
  client.on('error', () => undefined); // a lost connection is noticed, and reported, by the wire session
  try {
    await client.connect();
  } catch (error) {
    // Not `end`: it waits for an end that never comes when the server refused our certificate with a TLS alert.
    (client as unknown as { connection: DriverConnection }).connection.stream.destroy();
    throw error;
  }
  return client;
}

async function replicationClient(config: pg.ClientConfig): Promise<pg.Client> {
  const service = new LogicalReplicationService(config, {
    acknowledge: { auto: false, timeoutSeconds: 0 },
    flowControl: { enabled: false },
  });
  service.on('error', () => undefined);
  // `client` is the step of `subscribe` that only connects; the published types hide it.
  const [client] = await (service as unknown as { client(): Promise<[pg.Client, unknown]> }).client();
  return client;
}

async function tlsOptions(connection: SourceConnection, attempt: TlsAttempt): Promise<ConnectionOptions> {
  const read = async (path: string | null, what: string): Promise<Buffer | undefined> => {
    if (path === null || path === 'system') return undefined;
    try {
      return await readFile(path);
    } catch (cause) {
      throw new ReaderError('SOURCE_TLS', `${what} ${path} cannot be read`, {
        cause,
        remedy: `put the PEM file there, readable by this process, or correct ${what}`,
      });
    }
  };
  const [ca, cert, key, crl] = await Promise.all([
    read(connection.sslrootcert, 'sslrootcert'),
    read(connection.sslcert, 'sslcert'),
    read(connection.sslkey, 'sslkey'),
    read(connection.sslcrl, 'sslcrl'),
  ]);
  return {
    rejectUnauthorized: attempt.verifyChain,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(crl === undefined ? {} : { crl }),
    ...(connection.sslpassword === null ? {} : { passphrase: connection.sslpassword }),
    // verify-ca trusts whoever the CA signed for, whatever the name.
    ...(attempt.verifyHost ? {} : { checkServerIdentity: (_host: string, _cert: PeerCertificate) => undefined }),
  };
}

const TLS_CODES = /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|CRL_)/;

/** Errors of the driver, the socket and the TLS layer by what a user can do about them. */
function connectError(error: unknown, connection: SourceConnection, purpose: string): ReaderError {
  if (error instanceof ReaderError) return error;
  const cause = error instanceof Error ? error : new Error(String(error));
  const { code: given } = cause as { code?: unknown };
  const code = typeof given === 'string' ? given : '';
  const where = `${connection.host}:${connection.port}/${connection.database} as ${connection.user}`;
  const fields = { sqlstate: code, message: cause.message };
  if (/^[0-9A-Z]{5}$/.test(code) && 'severity' in cause) {
    const known = knownServerError(fields);
    const mapped = known.code === 'SOURCE_QUERY_FAILED' ? 'SOURCE_UNREACHABLE' : known.code;
    const remedy = /pg_hba\.conf/.test(cause.message) ? hbaRemedy(connection, cause.message) : known.remedy;
    return new ReaderError(mapped, `${purpose}: PostgreSQL at ${where} refused: ${cause.message}`, {
      cause,
      remedy,
      // The sender of a connection that was cut may stand for a minute yet.
      ...(known.code === 'NO_FREE_SENDER' ? { retriable: true } : {}),
    });
  }
  if (/does not support SSL|establishing an SSL/.test(cause.message)) {
    return new ReaderError('SOURCE_TLS', `${purpose}: the server at ${where} does not speak TLS`, {
      cause,
      remedy: 'set ssl=on on the server, or sslmode=disable here if the network is trusted',
    });
  }
  if (TLS_CODES.test(code) || /certificate|SSL|TLS/.test(cause.message)) {
    return new ReaderError('SOURCE_TLS', `${purpose}: TLS with ${where} failed: ${cause.message}`, {
      cause,
      remedy:
        'check sslrootcert (the CA that signed the server), sslcert and sslkey (yours, not expired), and the host name',
    });
  }
  if (/SASL|password/i.test(cause.message)) {
    return new ReaderError('SOURCE_AUTHENTICATION', `${purpose}: PostgreSQL at ${where} refused: ${cause.message}`, {
      cause,
      remedy: 'check user and password of source.postgres',
    });
  }
  return new ReaderError(
    'SOURCE_UNREACHABLE',
    `${purpose}: PostgreSQL at ${where} cannot be reached: ${cause.message}`,
    {
      cause,
      remedy: `check that the server runs and listens there. ${POOLED_REMEDY}`,
    },
  );
}

function hbaRemedy(connection: SourceConnection, message: string): string {
  const database = /replication connection/.test(message) ? 'replication' : connection.database;
  const kind = /no encryption|SSL off/.test(message) ? 'host (or use sslmode=require and hostssl)' : 'hostssl';
  return `add a line to pg_hba.conf and reload: ${kind}  ${database}  ${connection.user}  <this machine's address>/32  scram-sha-256`;
}
