/**
 * DISK_FULL, for real: the disks of the lake and of the embedded log are small file systems that a filler fills up. Status,
 * /status and metrics name the place; with room again everything goes on by itself, and nothing is lost.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('a full disk', 'pg18');
const PLACES = ['lake', 'log'] as const;
const MIB = 1024 * 1024;

interface Report {
  readonly reader: { readonly trouble: { readonly state: string } | null };
  readonly tables: readonly { readonly table: string; readonly state: string; readonly why: string | null }[];
}

suite('a full disk', () => {
  const folder = temporaryFolder('disk-full');
  const mounted: string[] = [];
  let database: TestDatabase;
  let options: { cwd: string; env: Record<string, string> };
  let service: SluiceProcess | null = null;
  let port = 0;

  const sluice = (...args: string[]) => runSluice(args, options);
  const report = async (): Promise<Report> => (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as Report;
  const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const names = ({ reader, tables }: Report): string[] => [
    ...(reader.trouble === null ? [] : [reader.trouble.state]),
    ...tables.map(({ state }) => state),
  ];
  const filler = (place: string): string => join(folder, place, 'filler');
  const fill = (place: string): void => {
    const { bavail, bsize } = statfsSync(join(folder, place));
    try {
      writeFileSync(filler(place), Buffer.alloc(Math.max(0, Number(bavail) * Number(bsize))));
    } catch (error) {
      // The pipeline took some of it meanwhile: full is full.
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  };
  const equal = async (): Promise<boolean> => (await sluice('verify')).code === 0;

  beforeAll(async () => {
    try {
      for (const place of PLACES) {
        mkdirSync(join(folder, place));
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', join(folder, place)], { stdio: 'ignore' });
        mounted.push(place);
      }
    } catch {
      return;
    }
    database = await getPostgres();
    port = await freePort();
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: full
source: {postgres: "\${PGURL}", tables: ["public.*"]}
lake: {uri: ./lake/tables}
log: {path: ./log/events}
stream: {trigger: 200ms}
http: {port: ${port}}
logging: {level: error}
`,
    );
    options = { cwd: folder, env: { PGURL: database.url } };
    await database.query(
      `create table busy (id int primary key, v text); insert into busy select i, 'v' from generate_series(1, 200) i;
       create table quiet (id int primary key, v text); insert into quiet select i, 'v' from generate_series(1, 20) i`,
    );
    service = startSluice(['run'], options);
    await waitFor('the first snapshot', equal, { everyMs: 300 });
  });

  afterAll(async () => {
    service?.kill('SIGTERM');
    await service?.ended;
    for (const place of mounted) execFileSync('umount', ['-l', join(folder, place)], { stdio: 'ignore' });
    await database?.close();
  });

  it.for(PLACES)('of the %s is named, stops nothing for good, and loses nothing', async (place, context) => {
    if (mounted.length < PLACES.length) context.skip('mounting a small file system is not allowed here');
    const state = `DISK_FULL(${place})`;
    fill(place);
    let written = 0;
    await waitFor(
      `${state}`,
      async () => {
        // Rows that do not compress, so that no slack holds them; small enough to fit in once there is room.
        if (written < 6 * MIB) {
          await database.query(
            `update busy set v = (select string_agg(md5(random()::text), '') from generate_series(1, 200)) where id <= 100`,
          );
          written += 100 * 6_400;
        }
        return names(await report()).includes(state);
      },
      { everyMs: 300 },
    );
    const { code, command } = statePage('DISK_FULL', '');
    const shown = await waitFor('status to say so', async () => {
      const now = await sluice(...command);
      return now.out.includes(`${code} ${state}`) ? now : null;
    });
    expect(shown.code).toBe(3);
    expect(shown.out).toContain('room');
    expect((await sluice('explain', state)).out).toContain(code);
    if (place === 'lake')
      await waitFor('metrics to say so', async () =>
        (await metrics()).includes(`sluice_table_state{table="public.busy",state="${state}"} 1`),
      );
    const { tables } = await report();
    expect(tables.filter(({ why }) => why !== null)).toEqual([]);
    rmSync(filler(place));
    await waitFor('the lake to be equal again', equal, { everyMs: 500 });
    const after = await waitFor('the state to go', async () => {
      const now = await sluice(...command);
      return now.code === 0 ? now : null;
    });
    expect(after.out).not.toContain('DISK_FULL');
  });
});
