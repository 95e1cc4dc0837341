/**
 * Connection parameters as users have them: libpq's URLs, keyword strings and parts, with libpq's meaning of sslmode.
 * Source: PostgreSQL docs, 32.1 "Database Connection Control Functions" and 32.19 "SSL Support". node's pg gives sslmode
 * other meanings (`require` verifies there), so nothing of this is left to it.
 */
import { ReaderError } from './reader-error.ts';

export const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof SSL_MODES)[number];

export interface SourceConnection {
  /** A host name, an address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string | null;
  readonly sslmode: SslMode;
  /** Path of a PEM file, or `system` for the platform's roots. Where it is given, the chain is verified in every TLS mode. */
  readonly sslrootcert: string | null;
  readonly sslcert: string | null;
  readonly sslkey: string | null;
  readonly sslpassword: string | null;
  readonly sslcrl: string | null;
  readonly applicationName: string;
  readonly connectTimeoutMs: number;
  /** The user's own `options`, in front of ours. */
  readonly options: string;
  /** SCRAM channel binding: `require` and `prefer` use SCRAM-SHA-256-PLUS where the server offers it. */
  readonly channelBinding: boolean;
}

/** What may be given apart from, and over, the URL. Null and undefined mean "not given". */
export interface ConnectionParts {
  readonly host?: string | null;
  readonly port?: number | null;
  readonly database?: string | null;
  readonly user?: string | null;
  readonly password?: string | null;
  readonly sslmode?: string | null;
  readonly sslrootcert?: string | null;
  readonly sslcert?: string | null;
  readonly sslkey?: string | null;
}

/** libpq parameters that we understand; the second group is accepted and has no meaning here. */
const KNOWN = new Set(
  (
    'host hostaddr port dbname user password sslmode sslrootcert sslcert sslkey sslpassword sslcrl application_name ' +
    'connect_timeout options channel_binding'
  ).split(' '),
);
const ACCEPTED = new Set(
  (
    'fallback_application_name gssencmode target_session_attrs keepalives keepalives_idle keepalives_interval keepalives_count ' +
    'client_encoding sslcompression sslsni ssl_min_protocol_version ssl_max_protocol_version krbsrvname tcp_user_timeout ' +
    'load_balance_hosts require_auth sslnegotiation sslcertmode passfile'
  ).split(' '),
);

function invalid(what: string): ReaderError {
  return new ReaderError('SOURCE_URL_INVALID', `the source's connection ${what}`, {
    remedy: 'give source.postgres as postgres://user:password@host:5432/database?sslmode=verify-full',
  });
}

/** @throws ReaderError SOURCE_URL_INVALID; the message never repeats the URL, which may hold a password */
export function parseConnection(spec: string | null, parts: ConnectionParts = {}): SourceConnection {
  const given = spec === null || spec.trim() === '' ? new Map<string, string>() : parseSpec(spec.trim());
  const over: readonly (readonly [string, string | null | undefined])[] = [
    ['host', parts.host],
    ['port', parts.port == null ? null : String(parts.port)],
    ['dbname', parts.database],
    ['user', parts.user],
    ['password', parts.password],
    ['sslmode', parts.sslmode],
    ['sslrootcert', parts.sslrootcert],
    ['sslcert', parts.sslcert],
    ['sslkey', parts.sslkey],
  ];
  for (const [name, value] of over) if (value != null) given.set(name, value);
  const user = given.get('user') ?? 'postgres';
  const sslrootcert = given.get('sslrootcert') ?? null;
  return {
    host: given.get('hostaddr') ?? given.get('host') ?? 'localhost',
    port: wholeNumber(given.get('port') ?? '5432', 'port', 1, 65_535),
    database: given.get('dbname') ?? user,
    user,
    password: given.get('password') ?? null,
    // sslrootcert=system implies verify-full; weaker modes with it are refused by libpq, too.
    sslmode: sslModeOf(given.get('sslmode'), sslrootcert),
    sslrootcert,
    sslcert: given.get('sslcert') ?? null,
    sslkey: given.get('sslkey') ?? null,
    sslpassword: given.get('sslpassword') ?? null,
    sslcrl: given.get('sslcrl') ?? null,
    applicationName: given.get('application_name') ?? 'sluice',
    connectTimeoutMs: wholeNumber(given.get('connect_timeout') ?? '15', 'connect_timeout', 0, 86_400) * 1000,
    options: given.get('options') ?? '',
    channelBinding: (given.get('channel_binding') ?? 'prefer') !== 'disable',
  };
}

function sslModeOf(text: string | undefined, sslrootcert: string | null): SslMode {
  if (text === undefined) return sslrootcert === 'system' ? 'verify-full' : 'prefer';
  const mode = SSL_MODES.find((known) => known === text);
  if (mode === undefined) throw invalid(`has sslmode '${text}'; it may be ${SSL_MODES.join(', ')}`);
  if (sslrootcert === 'system' && mode !== 'verify-full') {
    throw invalid(`has sslrootcert=system with sslmode '${mode}'; only verify-full goes with it`);
  }
  return mode;
}

function wholeNumber(text: string, name: string, least: number, most: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  if (value < least || value > most) throw invalid(`has a ${name} that is no number from ${least} to ${most}`);
  return value;
}

function parseSpec(spec: string): Map<string, string> {
  const given = /^postgres(ql)?:\/\//.test(spec) ? parseUrl(spec) : parseKeywords(spec);
  for (const name of given.keys()) {
    if (!KNOWN.has(name) && !ACCEPTED.has(name))
      throw invalid(`has the parameter '${name}', which libpq does not know`);
  }
  return given;
}

function parseUrl(spec: string): Map<string, string> {
  let url: URL;
  try {
    url = new URL(spec);
  } catch {
    throw invalid('is no URL (characters such as @ : / in the password are written as %40 %3A %2F)');
  }
  if (url.hostname.includes(',')) throw invalid('names several hosts; name the primary');
  const given = new Map<string, string>();
  const decoded = (text: string): string => {
    try {
      return decodeURIComponent(text);
    } catch {
      throw invalid('has a % that is not followed by two hexadecimal digits (write it as %25)');
    }
  };
  if (url.hostname !== '') given.set('host', decoded(url.hostname).replace(/^\[|\]$/g, ''));
  if (url.port !== '') given.set('port', url.port);
  if (url.username !== '') given.set('user', decoded(url.username));
  if (url.password !== '') given.set('password', decoded(url.password));
  if (url.pathname.length > 1) given.set('dbname', decoded(url.pathname.slice(1)));
  for (const [name, value] of url.searchParams)
    given.set(name === 'ssl' ? 'sslmode' : name, name === 'ssl' ? sslFlag(value) : value);
  return given;
}

/** JDBC's `ssl=true` is accepted by libpq in URLs as sslmode=require. */
function sslFlag(value: string): string {
  if (value !== 'true') throw invalid(`has ssl=${value}; write sslmode=… instead`);
  return 'require';
}

/** `host=db port=5432 password='it''s'`: values may be quoted, with \' and \\ inside. */
function parseKeywords(spec: string): Map<string, string> {
  const given = new Map<string, string>();
  const pair = /\s*([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)/gy;
  while (pair.lastIndex < spec.length) {
    if (/^\s*$/.test(spec.slice(pair.lastIndex))) break;
    const match = pair.exec(spec);
    if (match === null) throw invalid('is neither a postgres:// URL nor a list of name=value');
    const [, name = '', raw = ''] = match;
    const bare = raw.startsWith("'") ? raw.slice(1, -1) : raw;
    given.set(name, bare.replace(/\\(.)/g, '$1'));
  }
  return given;
}

/** One way to try to connect. `allow` and `prefer` have two, in order. */
export interface TlsAttempt {
  readonly tls: boolean;
  readonly verifyChain: boolean;
  readonly verifyHost: boolean;
}

export function tlsAttempts(connection: SourceConnection): readonly TlsAttempt[] {
  const { sslmode, sslrootcert, host } = connection;
  const plain: TlsAttempt = { tls: false, verifyChain: false, verifyHost: false };
  // libpq does not speak TLS over Unix sockets, whatever sslmode says.
  if (host.startsWith('/')) return [plain];
  const lax: TlsAttempt = { tls: true, verifyChain: sslrootcert !== null, verifyHost: false };
  switch (sslmode) {
    case 'disable':
      return [plain];
    case 'allow':
      return [plain, lax];
    case 'prefer':
      return [lax, plain];
    case 'require':
      return [lax];
    case 'verify-ca':
    case 'verify-full':
      if (sslrootcert === null) {
        throw new ReaderError(
          'SOURCE_TLS',
          `sslmode=${sslmode} needs a root certificate, and sslrootcert is not given`,
          {
            remedy:
              "set sslrootcert to the CA's PEM file, or to `system` for the platform's roots (then with verify-full)",
          },
        );
      }
      return [{ tls: true, verifyChain: true, verifyHost: sslmode === 'verify-full' }];
  }
}

/**
 * Settings of every source session, the walsender's too: they fix PostgreSQL's text forms (contracts' type table relies on
 * them) and make a table whose policies would hide rows fail loudly (case 49).
 */
export const SESSION_SETTINGS: Readonly<Record<string, string>> = {
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  extra_float_digits: '3',
  bytea_output: 'hex',
  row_security: 'off',
  client_encoding: 'UTF8',
  // So that type names are qualified wherever they are not PostgreSQL's own, and no function of a user stands in the way.
  search_path: 'pg_catalog',
  quote_all_identifiers: 'off',
  // A role's or database's own limits are made for short requests: a snapshot's reads are long, and our sessions rest.
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0',
  default_transaction_read_only: 'off',
};

export function startupOptions(connection: SourceConnection): string {
  const ours = Object.entries(SESSION_SETTINGS).map(([name, value]) => `-c ${name}=${value}`);
  return [connection.options, ...ours].filter((part) => part !== '').join(' ');
}
