/** A pipeline of its own folder and database whose lake can be looked at, and whose commands may meet a failpoint. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { tableRows } from '../ingest/bench-of-parts.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { runSluice } from '../support/sluice-process.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';

export interface ReplayPipeline extends SluiceService {
  /** With more of the environment, such as SLUICE_FAILPOINT. */
  sluiceIn(env: Readonly<Record<string, string>>, ...args: string[]): ReturnType<typeof runSluice>;
  /** Waits for a service that a failpoint kills. */
  died(): Promise<void>;
  /** Living rows of a lake table, as texts by key. */
  rows(table: string, key: readonly string[]): Promise<Map<string, string>>;
  /** Writes a file into the pipeline's folder. */
  write(file: string, text: string): void;
  version(table: string): Promise<string>;
}

export async function createReplayPipeline(
  folder: string,
  name: string,
  database: TestDatabase,
  extra = '',
  env: Readonly<Record<string, string>> = {},
): Promise<ReplayPipeline> {
  const service = await createService(
    join(folder, name),
    `name: ${name}
source: {postgres: "\${PGURL}", tables: ["public.*"], snapshot: {chunkRows: 500}}
stream: {trigger: 100ms, maxOffsetsPerTrigger: 2000}
${extra}`,
    { PGURL: database.url, ...env },
  );
  const lake = createFileStore(join(service.folder, 'lake'));
  return Object.assign(service, {
    sluiceIn: (more: Readonly<Record<string, string>>, ...args: string[]) =>
      runSluice(args, { cwd: service.folder, env: { ...service.env, ...more } }),
    async died() {
      expect((await service.process()?.ended)?.signal).toBe('SIGKILL');
    },
    async rows(table: string, key: readonly string[]) {
      const found = await tableRows(lake, table.replace('.', '/'), key);
      const exact = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value);
      return new Map([...found].map(([id, row]) => [id, JSON.stringify(row, exact)]));
    },
    write: (file: string, text: string) => writeFileSync(join(service.folder, file), text),
    version: async (table: string) => (await service.lineOf(table))?.version ?? '',
  });
}
