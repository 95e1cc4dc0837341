/**
 * Initial load, from the start of `sluice run --available-now` to the last commit: a table of a PostgreSQL that is never
 * written to meanwhile, the embedded log, a lake on this disk. Beside it, on the same rows in the same run, what needs no
 * pipeline at all: PostgreSQL's own `COPY … TO`, through a pipe, into DuckDB's Parquet writer. Each is a process of its own,
 * and its start is in its time.
 */
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startPostgres } from '../local/postgres.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';

export interface LoadBench {
  readonly rows: number;
  readonly seconds: number;
  readonly rowsPerSecond: number;
  /** COPY into DuckDB's Parquet writer. */
  readonly copySeconds: number;
  readonly copyRowsPerSecond: number;
  /** Ours by theirs. */
  readonly ratio: number;
  readonly cpuSeconds: number;
  /** Most that the process of the load held at any time. */
  readonly rssBytes: number;
}

const COLUMNS = `id int8 primary key, a int4, b int8, c text, d text, e numeric(12,2), f timestamptz, g bool, h float8, i jsonb`;
const PEAK_POLL_MS = 50;

/** `cli`: the command line that starts this very `sluice`. */
export async function benchLoad(rows: number, cli: readonly string[] = ownCommand()): Promise<LoadBench> {
  const home = mkdtempSync(join(tmpdir(), 'sluice-bench-load-'));
  const server = await startPostgres({ durable: false, settings: { max_wal_size: '4GB' } });
  try {
    const source = await openPostgresSource(() => parseConnection(server.url));
    const session = await source.session('bench');
    await session.query(`create table public.bench (${COLUMNS})`);
    await session.query(`insert into public.bench select g, g % 1000, g * 7, 'customer ' || g, md5(g::text), (g % 100000) / 100.0,
      timestamptz '2026-01-01' + g * interval '1 second', g % 2 = 0, g / 3.0, jsonb_build_object('n', g) from generate_series(1, ${rows}) g`);
    await session.query('vacuum analyze public.bench');
    await session.close();
    const copySeconds = await copyIntoParquet(server.url, home);
    const config = join(home, 'sluice.yaml');
    writeFileSync(
      config,
      `name: load\nsource: {postgres: "${server.url}", tables: [public.bench]}\nlake: {uri: ${join(home, 'lake')}}\n` +
        `state: ${join(home, 'state')}\ncontracts: ${join(home, 'contracts')}\nhttp: {port: 0}\n`,
    );
    const ours = await runToEnd([...cli, 'run', '--available-now', '--config', config]);
    return {
      rows,
      seconds: ours.seconds,
      rowsPerSecond: Math.round(rows / ours.seconds),
      copySeconds,
      copyRowsPerSecond: Math.round(rows / copySeconds),
      ratio: copySeconds / ours.seconds,
      cpuSeconds: ours.cpuSeconds,
      rssBytes: ours.rssBytes,
    };
  } finally {
    await server.stop();
    rmSync(home, { recursive: true, force: true });
  }
}

function ownCommand(): string[] {
  return [process.execPath, ...process.execArgv, process.argv[1] ?? ''];
}

/** A named pipe stands between the two: what `COPY … TO STDOUT | duckdb` does, less a client in the middle. */
async function copyIntoParquet(url: string, home: string): Promise<number> {
  const folder = join(home, 'copy');
  mkdirSync(folder);
  // The server may run as another account.
  for (const open of [home, folder]) chmodSync(open, 0o777);
  execFileSync('mkfifo', ['-m', '666', join(folder, 'rows.csv')]);
  const script = fileURLToPath(new URL(`./copy-into-parquet${extname(import.meta.url)}`, import.meta.url));
  const command = [process.execPath, ...process.execArgv, script, folder];
  return (await runToEnd(command, { ...process.env, PGURL: url })).seconds;
}

interface Ended {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly rssBytes: number;
}

async function runToEnd(command: readonly string[], env = process.env): Promise<Ended> {
  const [file = '', ...args] = command;
  const started = process.hrtime.bigint();
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'pipe'], env });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  let rssBytes = 0;
  let cpuSeconds = 0;
  const look = setInterval(() => {
    const seen = lookAt(child.pid ?? 0);
    rssBytes = Math.max(rssBytes, seen.rssBytes);
    cpuSeconds = Math.max(cpuSeconds, seen.cpuSeconds);
  }, PEAK_POLL_MS);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  clearInterval(look);
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with exit code ${code}: ${said}`);
  return { seconds, cpuSeconds, rssBytes };
}

/** The kernel's own account of a process (Linux); zeros elsewhere. */
function lookAt(pid: number): Omit<Ended, 'seconds'> {
  try {
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    // Behind the name in brackets: user and system time are fields 14 and 15, in hundredths of a second.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
    const cpuSeconds = (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / 100;
    return { rssBytes: Number(peak?.[1] ?? 0) * 1024, cpuSeconds };
  } catch {
    return { rssBytes: 0, cpuSeconds: 0 };
  }
}
