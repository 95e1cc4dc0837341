import { describe, expect, it } from 'vitest';
import { environmentName, parseConfig, type ConfigInput } from './config.ts';
import { ConfigError } from './errors.ts';

const input = (text: string, env: Record<string, string> = {}, files: Record<string, string> = {}): ConfigInput => ({
  text,
  file: 'sluice.yaml',
  env,
  readFile: (path) => {
    const content = files[path];
    if (content === undefined) throw new Error('ENOENT');
    return content;
  },
});

function failure(text: string, env: Record<string, string> = {}): ConfigError {
  try {
    parseConfig(input(text, env));
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('expected a ConfigError');
}

describe('parseConfig', () => {
  it('fills every default from nothing', () => {
    const config = parseConfig(input(''));
    expect(config.name).toBe('sluice');
    expect(config.source.slot).toBe('sluice_sluice');
    expect(config.log).toMatchObject({ kind: 'embedded', path: './.sluice/log', retention: 7 * 86_400_000 });
    expect(config.stream.trigger).toBe(1_000);
    expect(config.stream.memory).toBe(128_000_000);
    expect(config.http.port).toBe(8950);
  });

  it('derives the slower trigger on s3 and keeps an explicit one', () => {
    expect(parseConfig(input('lake: {uri: s3://b/p}')).stream.trigger).toBe(10_000);
    expect(parseConfig(input('lake: {uri: s3://b/p}\nstream: {trigger: 500ms}')).stream.trigger).toBe(500);
    expect(parseConfig(input('stream: {trigger: available-now}')).stream.trigger).toBe('available-now');
  });

  it('replaces variables and files inside values and drops the trailing newline of a file', () => {
    const config = parseConfig(
      input(
        'source: {postgres: "${PGURL}", password: "${file:/run/secrets/pg}"}',
        { PGURL: 'postgres://h/db' },
        { '/run/secrets/pg': 's3cret\n' },
      ),
    );
    expect(config.source.postgres).toBe('postgres://h/db');
    expect(config.source.password).toBe('s3cret');
  });

  it('refuses a variable of a section that sets no key, and leaves those of others alone', () => {
    expect(failure('', { SLUICE_STREAM_TRIGER: '1s' })).toMatchObject({
      message: 'environment: unknown variable SLUICE_STREAM_TRIGER',
      remedy: 'did you mean SLUICE_STREAM_TRIGGER?',
    });
    const others = { SLUICE_TEST_RUNS: '1', SLUICE_SERVICE_HOST: 'h', SLUICE_LOG_PORT_9092_TCP: 'tcp://h' };
    expect(() => parseConfig(input('name: "${SLUICE_LOG_OWN}"', { ...others, SLUICE_LOG_OWN: 'x' }))).not.toThrow();
  });

  it('lets the environment win over the file', () => {
    const config = parseConfig(
      input('http: {port: 1}', { SLUICE_HTTP_PORT: '9000', SLUICE_SOURCE_TABLES: 'a.b, c.*' }),
    );
    expect(config.http.port).toBe(9000);
    expect(config.source.tables).toEqual(['a.b', 'c.*']);
    expect(environmentName(['stream', 'maxOffsetsPerTrigger'])).toBe('SLUICE_STREAM_MAX_OFFSETS_PER_TRIGGER');
  });

  it('accepts source.postgres as a map', () => {
    const config = parseConfig(input('source: {postgres: {host: db, port: 5433, database: shop, user: u, ssl: true}}'));
    expect(config.source).toMatchObject({
      postgres: null,
      host: 'db',
      port: 5433,
      database: 'shop',
      sslmode: 'require',
    });
  });

  it.each([
    ['lake: {url: x}', "unknown key 'lake.url'", "did you mean 'lake.uri'?"],
    ['sorce: {}', "unknown key 'sorce'", "did you mean 'source'?"],
    ['log: {kind: rabbit}', 'log.kind cannot be "rabbit"', 'one of embedded, kafka'],
    ['http: {port: -1}', 'http.port cannot be -1', 'whole number'],
    ['log: {kind: kafka}', 'log.brokers is empty', 'host:port'],
    ['stream: {trigger: soon}', "stream.trigger cannot be 'soon'", '500ms'],
    ['source: {slot: Bad-Slot}', "'Bad-Slot' is no slot name", 'a-z'],
    ['a: [1', 'not valid YAML', 'fix the line'],
    ['source: {password: "${NOPE}"}', 'needs the environment variable NOPE', 'export NOPE'],
  ])('refuses %s', (text, message, remedy) => {
    const error = failure(text);
    expect(error.message).toContain(message);
    expect(error.remedy).toContain(remedy);
    expect(error.exit).toBe(2);
  });

  it('never shows a secret in a message', () => {
    expect(failure('source: {password: {a: hunter2}}').message).not.toContain('hunter2');
  });
});
