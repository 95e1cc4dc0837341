/**
 * Reads sluice.yaml, lays SLUICE_… variables over it, replaces `${VAR}` and `${file:…}` inside values, and checks every
 * key against CONFIG_SCHEMA. Pure but for the file reads that its caller injects.
 */
import { parseDocument } from 'yaml';
import { CONFIG_SCHEMA, isField, type Field, type Section } from './config-schema.ts';
import { DEFAULT_TRIGGER_LOCAL, parseDuration, parseSize } from './duration.ts';
import { ConfigError } from './errors.ts';
import { nearest } from '../../contracts/engine/nearest.ts';

export interface TlsFiles {
  readonly enabled: boolean;
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly rejectUnauthorized: boolean;
}

export interface Config {
  readonly name: string;
  readonly source: {
    readonly postgres: string | null;
    readonly host: string | null;
    readonly port: number | null;
    readonly database: string | null;
    readonly user: string | null;
    readonly password: string | null;
    readonly sslmode: string | null;
    readonly sslrootcert: string | null;
    readonly sslcert: string | null;
    readonly sslkey: string | null;
    readonly replica: string | null;
    readonly tables: readonly string[];
    readonly newTables: 'backfill' | 'announce' | 'ignore';
    readonly slot: string;
    readonly publication: string;
    readonly snapshot: { readonly parallel: number; readonly chunkRows: number };
    /** Milliseconds. */
    readonly heartbeat: number;
    readonly streaming: 'off' | 'on';
    /** Bytes, or null for no budget. */
    readonly walBudget: number | null;
    readonly onExceed: 'alert' | 'drop-slot';
  };
  readonly log: {
    readonly kind: 'embedded' | 'kafka';
    readonly path: string;
    readonly brokers: readonly string[];
    readonly partitions: number;
    readonly replicationFactor: number;
    /** Milliseconds. */
    readonly retention: number;
    readonly debezium: {
      readonly topics: readonly string[];
      readonly decimals: 'precise' | 'string' | 'double';
      readonly times: 'adaptive' | 'adaptive_time_microseconds' | 'connect' | 'isostring';
      readonly binary: 'bytes' | 'base64' | 'base64-url-safe' | 'hex';
      readonly placeholder: string;
    };
    readonly ssl: TlsFiles;
    readonly sasl: {
      readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512' | 'oauthbearer' | null;
      readonly username: string | null;
      readonly password: string | null;
      readonly token: string | null;
    };
  };
  readonly contracts: string;
  readonly privacy: { readonly key: string | null };
  readonly lake: {
    readonly uri: string;
    readonly s3: {
      readonly endpoint: string | null;
      readonly region: string;
      readonly forcePathStyle: boolean;
      readonly kmsKeyId: string | null;
      readonly ssl: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null };
    };
    readonly cdf: boolean;
    readonly deletionVectors: boolean;
  };
  readonly stream: {
    /** Milliseconds, or 'available-now'. */
    readonly trigger: number | 'available-now';
    readonly maxOffsetsPerTrigger: number;
    readonly checkpoint: string | null;
    readonly foreachBatch: string | null;
    /** Bytes. */
    readonly memory: number;
  };
  readonly state: string;
  readonly http: {
    readonly host: string;
    readonly port: number;
    readonly token: string | null;
    readonly tls: { readonly cert: string | null; readonly key: string | null; readonly ca: string | null };
  };
  readonly logging: { readonly level: 'debug' | 'info' | 'warn' | 'error' };
}

export interface ConfigInput {
  /** Text of sluice.yaml, or null to use the environment and defaults alone. */
  readonly text: string | null;
  /** For messages: the file's name as the user gave it. */
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads a `${file:…}` reference. */
  readonly readFile: (path: string) => string;
}

/** @throws ConfigError naming the key, what it holds and what is expected. */
export function parseConfig(input: ConfigInput): Config {
  const root = readYaml(input);
  normaliseSource(root, input.file);
  refuseUnknownVariables(input);
  overlayEnvironment(root, input.env);
  const values = readSection(CONFIG_SCHEMA, root, [], input) as unknown as Config;
  return withDerived(values, input.file);
}

/** The variable that sets a key: `stream.maxOffsetsPerTrigger` → `SLUICE_STREAM_MAX_OFFSETS_PER_TRIGGER`. */
export function environmentName(path: readonly string[]): string {
  return `SLUICE_${path.map((part) => part.replace(/[A-Z]/g, (c) => `_${c}`).toUpperCase()).join('_')}`;
}

type Tree = { [key: string]: unknown };

function readYaml(input: ConfigInput): Tree {
  if (input.text === null) return {};
  const document = parseDocument(input.text, { prettyErrors: true });
  const problem = document.errors[0];
  if (problem !== undefined) {
    throw new ConfigError(
      `${input.file} is not valid YAML: ${problem.message.split('\n')[0]}`,
      'fix the line named above',
    );
  }
  const value: unknown = document.toJS();
  if (value === null || value === undefined) return {};
  if (!isTree(value)) throw new ConfigError(`${input.file} must hold keys and values at its top`, 'see `sluice init`');
  return value;
}

/** `source.postgres` may be a map {host, port, …}: its keys move up beside it. */
function normaliseSource(root: Tree, file: string): void {
  const source = root['source'];
  if (!isTree(source) || !isTree(source['postgres'])) return;
  const nested = source['postgres'];
  delete source['postgres'];
  for (const [key, value] of Object.entries(nested)) {
    if (key === 'ssl') {
      source['sslmode'] ??= value === true ? 'require' : value === false ? 'disable' : value;
      continue;
    }
    if (!(key in CONFIG_SCHEMA.source)) {
      throw unknownKey(file, ['source', 'postgres', key], Object.keys(CONFIG_SCHEMA.source));
    }
    source[key] = value;
  }
}

function overlayEnvironment(root: Tree, env: ConfigInput['env']): void {
  for (const [path] of leaves(CONFIG_SCHEMA, [])) {
    const value = env[environmentName(path)];
    if (value === undefined) continue;
    let node = root;
    for (const part of path.slice(0, -1)) {
      if (!isTree(node[part])) node[part] = {};
      node = node[part] as Tree;
    }
    node[path.at(-1) ?? ''] = value;
  }
}

/** Kubernetes gives every container such variables of a service that happens to be named like us. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$/;

/** A mistyped variable would leave its key at the default without a word. Others that begin with SLUICE_ are not ours to judge. */
function refuseUnknownVariables({ env, text }: ConfigInput): void {
  const known = [...leaves(CONFIG_SCHEMA, [])].map(([path]) => environmentName(path));
  const sections = Object.entries(CONFIG_SCHEMA).flatMap(([key, node]) =>
    isField(node) ? [] : [`${environmentName([key])}_`],
  );
  for (const name of Object.keys(env)) {
    if (!sections.some((section) => name.startsWith(section)) || known.includes(name)) continue;
    if (SERVICE_LINK.test(name) || text?.includes(`\${${name}}`) === true) continue;
    const near = nearest(name, known);
    throw new ConfigError(
      `environment: unknown variable ${name}`,
      near === null ? 'unset it, or see docs/operations.md for the keys' : `did you mean ${near}?`,
    );
  }
}

function* leaves(section: Section, path: readonly string[]): Generator<[readonly string[], Field]> {
  for (const [key, node] of Object.entries(section)) {
    if (isField(node)) yield [[...path, key], node];
    else yield* leaves(node, [...path, key]);
  }
}

function readSection(section: Section, given: unknown, path: readonly string[], input: ConfigInput): Tree {
  if (given !== undefined && given !== null && !isTree(given)) {
    throw new ConfigError(
      `${input.file}: ${path.join('.')} must hold keys and values`,
      `expected: ${Object.keys(section).join(', ')}`,
    );
  }
  const tree = (given ?? {}) as Tree;
  for (const key of Object.keys(tree)) {
    if (!(key in section)) throw unknownKey(input.file, [...path, key], Object.keys(section));
  }
  const out: Tree = {};
  for (const [key, node] of Object.entries(section)) {
    const here = [...path, key];
    out[key] = isField(node) ? readField(node, tree[key], here, input) : readSection(node, tree[key], here, input);
  }
  return out;
}

function unknownKey(file: string, path: readonly string[], known: readonly string[]): ConfigError {
  const near = nearest(path.at(-1) ?? '', known);
  const hint =
    near === null ? `known here: ${known.join(', ')}` : `did you mean '${[...path.slice(0, -1), near].join('.')}'?`;
  return new ConfigError(`${file}: unknown key '${path.join('.')}'`, hint);
}

function readField(field: Field, given: unknown, path: readonly string[], input: ConfigInput): unknown {
  let value = given === undefined ? field.default : given;
  if (typeof value === 'string') value = substitute(value, path, input);
  if (value === null) {
    if (field.nullable === true) return null;
    throw wrongValue(field, value, path, input.file);
  }
  const read = convert(field, value, path, input);
  if (read === undefined) throw wrongValue(field, value, path, input.file);
  return read;
}

/** Undefined = the value does not fit the field. */
function convert(field: Field, value: unknown, path: readonly string[], input: ConfigInput): unknown {
  switch (field.kind) {
    case 'string':
      return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined;
    case 'boolean':
      return typeof value === 'boolean' ? value : value === 'true' ? true : value === 'false' ? false : undefined;
    case 'integer': {
      const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
      const fits = typeof number === 'number' && Number.isSafeInteger(number) && number >= (field.minimum ?? 0);
      return fits ? number : undefined;
    }
    case 'duration':
      return typeof value === 'string' ? (parseDuration(value) ?? undefined) : undefined;
    case 'bytes':
      return typeof value === 'number'
        ? value
        : typeof value === 'string'
          ? (parseSize(value) ?? undefined)
          : undefined;
    case 'choice':
      return typeof value === 'string' && field.values.includes(value) ? value : undefined;
    case 'list': {
      const items = typeof value === 'string' ? value.split(',').map((item) => item.trim()) : value;
      if (!Array.isArray(items) || !items.every((item) => typeof item === 'string')) return undefined;
      return items.filter((item) => item !== '').map((item) => substitute(item, path, input));
    }
  }
}

function wrongValue(field: Field, value: unknown, path: readonly string[], file: string): ConfigError {
  const secret = /password|token|postgres|replica|privacy\.key/.test(path.join('.'));
  const shown = secret ? 'the given value' : JSON.stringify(value);
  const expected: Record<Field['kind'], string> = {
    string: 'a text',
    boolean: 'true or false',
    integer: `a whole number of at least ${field.minimum ?? 0}`,
    duration: 'a duration such as 500ms, 10s or 7d',
    bytes: 'a size such as 64MB or 10GB',
    choice: `one of ${field.values?.join(', ') ?? ''}`,
    list: 'a list of texts',
  };
  return new ConfigError(
    `${file}: ${path.join('.')} cannot be ${shown}`,
    `expected ${expected[field.kind]} (${field.help})`,
  );
}

/** Replaces `${VAR}` and `${file:/path}`; a missing one is an error that names the key, never its content. */
function substitute(value: string, path: readonly string[], input: ConfigInput): string {
  return value.replace(/\$\{([^}]*)\}/g, (_whole, reference: string) => {
    if (reference.startsWith('file:')) {
      try {
        return input.readFile(reference.slice('file:'.length)).replace(/\r?\n$/, '');
      } catch (cause) {
        throw new ConfigError(
          `${input.file}: ${path.join('.')} names the file '${reference.slice(5)}', which cannot be read`,
          'create it or correct the path',
          cause,
        );
      }
    }
    const found = input.env[reference];
    if (found === undefined) {
      throw new ConfigError(
        `${input.file}: ${path.join('.')} needs the environment variable ${reference}`,
        `export ${reference}=…`,
      );
    }
    return found;
  });
}

function withDerived(config: Config, file: string): Config {
  if (!/^[A-Za-z0-9_-]{1,50}$/.test(config.name)) {
    throw new ConfigError(
      `${file}: name '${config.name}' must be 1 to 50 letters, digits, _ or -`,
      'choose another name',
    );
  }
  if (config.log.kind === 'kafka' && config.log.brokers.length === 0) {
    throw new ConfigError(`${file}: log.kind is kafka, but log.brokers is empty`, 'name at least one host:port');
  }
  const defaultName = `sluice_${config.name}`.toLowerCase().replace(/[^a-z0-9_]/g, '_');
  const slot = config.source.slot ?? defaultName;
  if (!/^[a-z0-9_]{1,63}$/.test(slot)) {
    throw new ConfigError(
      `${file}: source.slot '${slot}' is no slot name`,
      'PostgreSQL allows a-z, 0-9 and _, 63 at most',
    );
  }
  const trigger = readTrigger(config.stream.trigger as unknown as string | null, config.lake.uri, file);
  return {
    ...config,
    source: { ...config.source, slot, publication: config.source.publication ?? defaultName },
    log: { ...config.log, path: config.log.path ?? `${config.state}/log` },
    stream: { ...config.stream, trigger },
  };
}

function readTrigger(given: string | null, lakeUri: string, file: string): number | 'available-now' {
  const text = given ?? (/^s3a?:/.test(lakeUri) ? '10s' : DEFAULT_TRIGGER_LOCAL);
  if (text === 'available-now') return text;
  const ms = parseDuration(text);
  if (ms === null || ms < 1) {
    throw new ConfigError(
      `${file}: stream.trigger cannot be '${text}'`,
      'a duration such as 500ms or 10s, or available-now',
    );
  }
  return ms;
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
