/**
 * vitest's global setup of the integration project: builds the program once, and keeps the servers that test files share.
 * Files run in processes of their own, as many at a time as there are workers; those of one worker follow one another and
 * have the same servers, those of two workers never. A server is started when the first test asks for it, in vitest's own
 * process, and all are stopped when the run ends, failed or not. Tests reach the keeper by HTTP (`shared-server.ts`).
 */
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startKafka } from '../../ops/local/kafka.ts';
import type { PostgresMajor } from '../../ops/local/postgres-binaries.ts';
import { startPostgres } from '../../ops/local/postgres.ts';
import { startS3 } from '../../ops/local/s3.ts';
import { cacheFolder } from './cache.ts';
import type { SharedServers } from './shared-server.ts';
import { REPOSITORY } from './source-files.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly serverKeeper: string;
  }
}

interface Kept {
  readonly description: SharedServers[keyof SharedServers];
  stop(): Promise<void>;
}

async function startShared(name: string): Promise<Kept> {
  if (name === 'kafka') {
    const kafka = await startKafka({ cache: cacheFolder() });
    return { description: { brokers: kafka.brokers }, stop: async () => kafka.stop() };
  }
  if (name === 's3') {
    const s3 = await startS3({ cache: cacheFolder() });
    const { endpoint, region, accessKeyId, secretAccessKey, dataDir } = s3;
    return { description: { endpoint, region, accessKeyId, secretAccessKey, dataDir }, stop: async () => s3.stop() };
  }
  const major = Number(name.replace('pg', '')) as PostgresMajor;
  const postgres = await startPostgres({
    major,
    durable: false,
    cache: cacheFolder(),
    settings: { max_replication_slots: 60, max_wal_senders: 60, max_connections: 200 },
  });
  const { url, port, password } = postgres;
  return { description: { url, port, password, major }, stop: async () => postgres.stop() };
}

/** So that the program that tests start is what stands in the sources. */
function buildProgram(): void {
  const tsc = join(REPOSITORY, 'node_modules/typescript/bin/tsc');
  execFileSync(process.execPath, [tsc, '-p', 'ops/tsconfig.build.json'], { cwd: REPOSITORY, stdio: 'inherit' });
}

export default async function keepServers(project: TestProject): Promise<() => Promise<void>> {
  buildProgram();
  /** By worker and name. */
  const kept = new Map<string, Promise<Kept>>();
  /** The last start of each name: the next waits, because the first may still fetch what both need. */
  const starts = new Map<string, Promise<unknown>>();
  const keeper = createServer((request, response) => {
    const path = request.url ?? '/';
    const name = path.slice(path.lastIndexOf('/') + 1);
    let server = kept.get(path);
    if (server === undefined) {
      const before = starts.get(name) ?? Promise.resolve();
      server = before.then(async () => startShared(name));
      kept.set(path, server);
      starts.set(
        name,
        server.catch(() => {}),
      );
    }
    server.then(
      ({ description }) => response.end(JSON.stringify(description)),
      (error: unknown) => {
        response.statusCode = 503;
        response.end(error instanceof Error ? error.message : String(error));
      },
    );
  });
  await new Promise<void>((resolve) => {
    keeper.listen(0, '127.0.0.1', resolve);
  });
  project.provide('serverKeeper', `http://127.0.0.1:${(keeper.address() as AddressInfo).port}`);
  return async () => {
    keeper.close();
    keeper.closeAllConnections();
    const stops = [...kept.values()].map(async (server) => (await server).stop());
    await Promise.allSettled(stops);
  };
}
