/** A pipeline of its own folder and database, driven by the commands that a person types. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { tableRows } from '../ingest/bench-of-parts.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { waitFor } from '../support/wait-for.ts';

export interface Answer {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
  readonly json: Record<string, unknown>;
}

export interface ReplayPipeline {
  readonly cwd: string;
  sluice(...args: string[]): Promise<Answer>;
  /** With more of the environment, such as SLUICE_FAILPOINT. */
  sluiceIn(env: Record<string, string>, ...args: string[]): Promise<Answer>;
  start(env?: Record<string, string>): Promise<void>;
  stop(): Promise<void>;
  /** Waits for a service that a failpoint kills. */
  died(): Promise<void>;
  /** Every row of these tables equal to the source, by the rows themselves. */
  expectEqual(...tables: string[]): Promise<void>;
  /** Living rows of a lake table, as texts by key. */
  rows(table: string, key: readonly string[]): Promise<Map<string, string>>;
  contract(table: string): string;
  /** Writes the contract file of a table, or another file. */
  write(file: string, text: string): void;
  version(table: string): Promise<string>;
}

export async function createReplayPipeline(
  folder: string,
  name: string,
  database: TestDatabase,
  extra = '',
  more: Readonly<Record<string, string>> = {},
): Promise<ReplayPipeline> {
  const cwd = join(folder, name);
  mkdirSync(join(cwd, 'contracts'), { recursive: true });
  const port = await freePort();
  writeFileSync(
    join(cwd, 'sluice.yaml'),
    `name: ${name}
source: {postgres: "\${PGURL}", tables: ["public.*"], snapshot: {chunkRows: 500}}
stream: {trigger: 100ms, maxOffsetsPerTrigger: 2000}
http: {port: ${port}}
logging: {level: warn}
${extra}`,
  );
  const env = { PGURL: database.url, ...more };
  let service: SluiceProcess | null = null;
  const run = async (more: Record<string, string>, args: readonly string[]): Promise<Answer> => {
    const done = await runSluice(args, { cwd, env: { ...env, ...more } });
    return { ...done, json: /^\s*\{/.test(done.out) ? (JSON.parse(done.out) as Record<string, unknown>) : {} };
  };
  const lake = createFileStore(join(cwd, 'lake'));
  const pipeline: ReplayPipeline = {
    cwd,
    sluice: (...args) => run({}, args),
    sluiceIn: (more, ...args) => run(more, args),
    async start(more = {}) {
      service = startSluice(['run'], { cwd, env: { ...env, ...more } });
      await waitFor('the service', async () => (await run({}, ['status', '--json'])).code === 0);
    },
    async stop() {
      if (service === null) return;
      service.kill('SIGTERM');
      const { code, err } = await service.ended;
      service = null;
      expect(code, err).toBe(0);
    },
    async died() {
      expect((await service?.ended)?.signal).toBe('SIGKILL');
      service = null;
    },
    async expectEqual(...tables) {
      const verified = await run({}, [
        'verify',
        '--tables',
        tables.map((table) => `public.${table}`).join(','),
        '--json',
      ]);
      expect(verified.json, verified.err).toMatchObject({ equal: true });
    },
    async rows(table, key) {
      const found = await tableRows(lake, table.replace('.', '/'), key);
      const exact = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value);
      return new Map([...found].map(([id, row]) => [id, JSON.stringify(row, exact)]));
    },
    contract: (table) => readFileSync(join(cwd, 'contracts', `public.${table}.odcs.yaml`), 'utf8'),
    write: (file, text) => writeFileSync(join(cwd, file), text),
    async version(table) {
      const { json } = await run({}, ['status', '--json']);
      const tables = json['tables'] as { table: string; version: string }[];
      return tables.find((each) => each.table === `public.${table}`)?.version ?? '';
    },
  };
  return pipeline;
}
