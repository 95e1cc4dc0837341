/**
 * The base of a comparison out of git, read with `git show`, never cloned: merge-base of HEAD and the ref (branch, tag, sha;
 * annotated tags dereferenced), and the versions that tags released before it. What a shallow clone lacks is an error with
 * the command that fetches it.
 */
import { join, posix } from 'node:path';
import type { BaseFile, BaseSet } from './base.ts';
import { isContractName, shownPath } from './contract-set.ts';
import type { Scope } from './contract-set.ts';
import { CommandError, EXIT } from './exit-code.ts';
import type { Ports } from './ports.ts';

const RELEASES_MAX = 200;

/** Commit of a ref, or null when git does not know it or the folder is in no repository. */
export async function resolveCommit(ports: Ports, ref: string, folder: string): Promise<string | null> {
  const found = await ports.git(['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`], folder);
  return found.code === 0 ? found.stdout.trim() : null;
}

/** Why git cannot work in the folder: no repository, no git, an owner that it does not trust. Null when it can. */
export async function gitFault(ports: Ports, folder: string): Promise<string | null> {
  const { code, stderr } = await ports.git(['rev-parse', '--is-inside-work-tree'], folder);
  if (code === 0) return null;
  return code === 127 ? 'git is not installed' : (stderr.trim().split('\n', 1)[0] ?? 'git failed');
}

export async function refMissing(ports: Ports, ref: string, folder: string): Promise<CommandError> {
  const remotes = (await ports.git(['remote'], folder)).stdout.split('\n').filter((name) => name !== '');
  const remote = [...remotes, 'origin'].find((name) => ref.startsWith(`${name}/`));
  const other = remotes.includes('origin') ? 'origin' : (remotes[0] ?? 'origin');
  const depth = (await isShallow(ports, folder)) ? '--unshallow ' : '';
  const command =
    remote !== undefined
      ? `git fetch ${depth}${remote} +refs/heads/${ref.slice(remote.length + 1)}:refs/remotes/${ref}`
      : /^[0-9a-f]{7,64}$/.test(ref)
        ? `git fetch ${depth}${other} ${ref}`
        : /^v?\d|^refs\/tags\//.test(ref)
          ? `git fetch ${depth}${other} +refs/tags/${ref.replace(/^refs\/tags\//, '')}:refs/tags/${ref.replace(/^refs\/tags\//, '')}`
          : `git fetch ${depth}${other} +refs/heads/${ref}:refs/remotes/${other}/${ref}`;
  return new CommandError('GIT_REF_MISSING', EXIT.environment, `git has no ${ref} here`, `run: ${command}`);
}

const isShallow = async (ports: Ports, folder: string): Promise<boolean> =>
  (await ports.git(['rev-parse', '--is-shallow-repository'], folder)).stdout.trim() === 'true';

export interface BaseOptions {
  /** Also what tags before the base hold. */
  readonly releases: boolean;
  /** The commit itself, not its merge-base with HEAD. */
  readonly exact: boolean;
}

export async function gitBase(
  ports: Ports,
  commit: string,
  scopes: readonly Scope[],
  { releases: withReleases, exact }: BaseOptions,
): Promise<BaseSet> {
  const [first] = scopes;
  if (first === undefined) return { label: '', files: [], released: [], named: false };
  const base = exact ? commit : await mergeBase(ports, commit, first.folder);
  const label = base.slice(0, 7);
  const files = (await listFiles(ports, base, scopes)).map(async ({ shown, full, folder }): Promise<BaseFile> => {
    return { file: shown, text: await show(ports, `${base}:${full}`, folder) };
  });
  return {
    label,
    files: await Promise.all(files),
    named: false,
    elsewhere: () => movedFiles(ports, base, scopes),
    released: withReleases ? await releases(ports, base, scopes) : [],
  };
}

async function mergeBase(ports: Ports, commit: string, folder: string): Promise<string> {
  const found = await ports.git(['merge-base', 'HEAD', commit], folder);
  if (found.code === 0) return found.stdout.trim();
  if (await isShallow(ports, folder))
    throw new CommandError(
      'GIT_HISTORY_MISSING',
      EXIT.environment,
      `this shallow clone does not reach back to where HEAD and ${commit.slice(0, 7)} parted`,
      'run: git fetch --unshallow origin',
    );
  // No commit yet, or unrelated histories: the ref itself is all there is to compare with.
  return commit;
}

interface Listed {
  readonly shown: string;
  /** From the repository's root. */
  readonly full: string;
  readonly blob: string;
  readonly folder: string;
}

async function listFiles(ports: Ports, commit: string, scopes: readonly Scope[]): Promise<Listed[]> {
  const found = new Map<string, Listed>();
  for (const scope of scopes) {
    const prefix = (await must(ports, ['rev-parse', '--show-prefix'], scope.folder)).replace(/\n$/, '');
    const file = scope.kind === 'file' ? `${prefix}${posix.basename(scope.path)}` : null;
    const path = file ?? (prefix === '' ? null : prefix);
    for (const { full, blob } of await listTree(ports, commit, scope.folder, path)) {
      if (file === null && !isContractName(full)) continue;
      const root = shownPath(ports, scope.folder);
      const shown = posix.join(root === '.' ? '' : root, full.slice(prefix.length));
      found.set(shown, { shown, full, blob, folder: scope.folder });
    }
  }
  return [...found.values()];
}

/** Folders move, and files between them: a contract keeps its id on the way. */
async function movedFiles(ports: Ports, commit: string, scopes: readonly Scope[]): Promise<BaseFile[]> {
  const folder = scopes[0]?.folder ?? ports.cwd;
  const root = (await must(ports, ['rev-parse', '--show-toplevel'], folder)).replace(/\n$/, '');
  const inside = new Set((await listFiles(ports, commit, scopes)).map(({ full }) => full));
  const gone = (await listTree(ports, commit, folder)).filter(
    ({ full }) => isContractName(full) && !inside.has(full) && ports.files.kind(join(root, full)) === null,
  );
  return Promise.all(
    gone.slice(0, MOVED_MAX).map(async ({ full, blob }) => ({
      file: shownPath(ports, join(root, full)),
      text: await show(ports, blob, folder),
    })),
  );
}
const MOVED_MAX = 2000;

interface TreeEntry {
  readonly full: string;
  readonly blob: string;
}

/** Links and submodules are no contracts. */
async function listTree(
  ports: Ports,
  commit: string,
  folder: string,
  path: string | null = null,
): Promise<TreeEntry[]> {
  const args = ['ls-tree', '-r', '-z', '--full-tree', commit, ...(path === null ? [] : ['--', path])];
  return (await must(ports, args, folder)).split('\0').flatMap((entry) => {
    const [meta = '', full] = entry.split('\t', 2);
    const [mode, , blob] = meta.split(' ');
    return full === undefined || blob === undefined || mode?.startsWith('100') !== true ? [] : [{ full, blob }];
  });
}

/** Newest tags first; a text that stands in several is read once. */
async function releases(ports: Ports, base: string, scopes: readonly Scope[]): Promise<BaseSet['released']> {
  const folder = scopes[0]?.folder ?? ports.cwd;
  const listed = await must(
    ports,
    ['for-each-ref', 'refs/tags', `--merged=${base}`, '--sort=-creatordate', '--format=%(refname:short)'],
    folder,
  );
  const tags = listed.split('\n').filter((tag) => tag !== '');
  const seen = new Set<string>();
  const named = new Set(scopes.flatMap(({ kind, path }) => (kind === 'file' ? [posix.basename(path)] : [])));
  const released: { label: string; file: string; text: string }[] = [];
  for (const tag of tags.slice(0, RELEASES_MAX)) {
    // The whole tree: a released contract may have stood in another folder. Who it is says its id.
    for (const { full, blob } of await listTree(ports, `refs/tags/${tag}^{commit}`, folder)) {
      if ((!isContractName(full) && !named.has(posix.basename(full))) || seen.has(blob)) continue;
      seen.add(blob);
      released.push({ label: tag, file: full, text: await show(ports, blob, folder) });
    }
  }
  return released;
}

const show = (ports: Ports, object: string, folder: string): Promise<string> =>
  must(ports, ['show', '--end-of-options', object], folder);

async function must(ports: Ports, args: readonly string[], folder: string): Promise<string> {
  const { code, stdout, stderr } = await ports.git(args, folder);
  if (code === 0) return stdout;
  const reason = stderr.trim().split('\n', 1)[0] ?? '';
  throw new CommandError(
    'GIT_FAILED',
    EXIT.environment,
    `git ${args[0] ?? ''} failed${reason === '' ? '' : `: ${reason}`}`,
    'run the command inside the repository, with git on the path',
  );
}
