/** The server behind `sluice demo` and the tests: what a killed process, a foreign folder or a bare package leave behind. */
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { installedPostgresPackage, usablePostgres } from '../../ops/local/postgres-binaries.ts';
import { startPostgres } from '../../ops/local/postgres.ts';
import type { PostgresServer } from '../../ops/local/postgres.ts';
import { REPOSITORY } from '../support/source-files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

async function query(server: PostgresServer, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(server.url);
  await client.connect();
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}

describe('startPostgres', () => {
  const folder = temporaryFolder('local-postgres');
  // As root the server runs as another account, which must be able to enter.
  chmodSync(folder, 0o755);

  it('keeps committed rows over SIGKILL, a restart with other settings, and a stop', async () => {
    const dataDir = join(folder, 'kept');
    const server = await startPostgres({ dataDir, durable: false });
    await query(server, 'create table t (id int); insert into t select generate_series(1, 100)');
    await server.kill();
    expect(server.running).toBe(false);
    await server.restart({ settings: { wal_level: 'replica' } });
    expect(await query(server, "select count(*)::int n, current_setting('wal_level') w from t")).toEqual([
      { n: 100, w: 'replica' },
    ]);
    await server.stop();
    // The password is kept with the data; ALTER SYSTEM and our settings come back.
    const again = await startPostgres({ dataDir, durable: false });
    expect(await query(again, "select count(*)::int n, current_setting('wal_level') w from t")).toEqual([
      { n: 100, w: 'logical' },
    ]);
    await again.stop();
    await expect(startPostgres({ dataDir, major: 17 })).rejects.toMatchObject({ code: 'SERVER_DATA_UNUSABLE' });
  });

  it('takes over from a server that outlived its parent, and passes over a stale postmaster.pid', async () => {
    const dataDir = join(folder, 'orphaned');
    const program = `import { startPostgres } from './ops/local/postgres.ts';
      const server = await startPostgres({ dataDir: ${JSON.stringify(dataDir)}, durable: false });
      console.log('started');
      process.kill(process.pid, 'SIGKILL');`;
    const script = join(folder, 'parent.mts');
    writeFileSync(script, program.replace("'./ops", `'${REPOSITORY}ops`));
    const parent = spawn(process.execPath, ['--import', 'tsx', script], { cwd: REPOSITORY, stdio: 'ignore' });
    await waitFor('the parent to die', () => parent.signalCode === 'SIGKILL');
    const pidFile = join(dataDir, 'postmaster.pid');
    const orphan = Number(readFileSync(pidFile, 'utf8').split('\n')[0]);
    expect(() => process.kill(orphan, 0)).not.toThrow();

    const server = await startPostgres({ dataDir, durable: false });
    await waitFor('the orphan to be gone', () => !existsSync(`/proc/${orphan}`));
    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }]);
    await server.kill();
    // Another program has that process number now: this very one.
    const lines = readFileSync(pidFile, 'utf8').split('\n');
    writeFileSync(pidFile, [String(process.pid), ...lines.slice(1)].join('\n'));
    await server.restart();
    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }]);
    await server.stop();
  });

  it.runIf(process.getuid?.() === 0)('says by name which folder the server cannot enter', async () => {
    const closed = join(folder, 'closed');
    mkdirSync(closed, { mode: 0o700 });
    await expect(startPostgres({ dataDir: join(closed, 'data') })).rejects.toMatchObject({
      code: 'SERVER_DATA_UNUSABLE',
      message: expect.stringContaining(closed),
    });
  });

  it('leaves no temporary folder behind, also when it cannot start', async () => {
    const server = await startPostgres({ durable: false });
    await server.stop();
    expect(existsSync(server.dataDir)).toBe(false);
    await expect(startPostgres({ settings: { no_such_setting: 1 } })).rejects.toMatchObject({
      code: 'SERVER_START_FAILED',
      message: expect.stringContaining('no_such_setting'),
    });
  });

  it('runs from a package whose install script never ran, and leaves the package as it is', async () => {
    const bare = join(folder, 'package');
    cpSync(installedPostgresPackage(), bare, { recursive: true });
    const links = JSON.parse(readFileSync(join(bare, 'native/pg-symlinks.json'), 'utf8')) as { target: string }[];
    for (const { target } of links) rmSync(join(bare, target), { force: true });
    const binaries = await usablePostgres(bare, join(folder, 'cache'), false);
    expect(binaries.postgres.startsWith(join(folder, 'cache'))).toBe(true);
    expect(links.length).toBeGreaterThan(5);
    expect(
      links.every(({ target }) => existsSync(join(folder, 'cache', `postgres-native-${binaries.version}`, target))),
    ).toBe(true);
    expect(existsSync(join(bare, links[0]!.target))).toBe(false);
  });
});
