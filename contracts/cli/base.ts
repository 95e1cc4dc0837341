/** What `--against` names: a branch, tag or commit of git, a folder of contracts, or one contract file. */
import { basename, join, relative, resolve, sep } from 'node:path';
import { parseContract } from '../engine/parse.ts';
import type { Contract } from '../engine/model.ts';
import { isContractName, shownPath } from './contract-set.ts';
import type { Scope } from './contract-set.ts';
import { CommandError, EXIT } from './exit-code.ts';
import { gitBase, gitFault, refMissing, resolveCommit } from './git-base.ts';
import type { BaseOptions } from './git-base.ts';
import type { Ports } from './ports.ts';

export interface BaseFile {
  /** Where it would stand now, as shown. */
  readonly file: string;
  readonly text: string;
}

export interface BaseSet {
  /** `3f2c9d1`, or the folder or file. */
  readonly label: string;
  readonly files: readonly BaseFile[];
  /** Contracts of the base that stand outside the paths checked and are gone from where they stood: they may have moved here. */
  readonly elsewhere?: () => Promise<readonly BaseFile[]>;
  /** What tags released, newest first. */
  readonly released: readonly (BaseFile & { readonly label: string })[];
  /** One file was named: it is the base of the only contract checked, whatever the two are called. */
  readonly named: boolean;
}

/** @throws CommandError GIT_REF_MISSING, GIT_HISTORY_MISSING, GIT_FAILED */
export async function openBase(
  ports: Ports,
  against: string,
  scopes: readonly Scope[],
  options: BaseOptions,
): Promise<BaseSet> {
  const path = resolve(ports.cwd, against);
  const kind = ports.files.kind(path);
  const folder = scopes[0]?.folder ?? ports.cwd;
  // A path that says it is one goes before a ref of the same name; else the ref goes first.
  if (kind !== null && (/^[./~]/.test(against) || isContractName(against))) return pathBase(ports, path, kind, scopes);
  const commit = against.startsWith('-') ? null : await resolveCommit(ports, against, folder);
  if (commit !== null) return gitBase(ports, commit, scopes, options);
  if (kind !== null) return pathBase(ports, path, kind, scopes);
  const fault = await gitFault(ports, folder);
  if (fault === null) throw await refMissing(ports, against, folder);
  throw new CommandError(
    'GIT_FAILED',
    EXIT.environment,
    `${against} is neither a folder nor a file, and git cannot read ${shownPath(ports, folder)}: ${fault}`,
    'name a folder or a file, or run inside the repository, with git on the path',
  );
}

/** A file is the base of the only contract that is checked; files of a folder are matched by id, then by name. */
function pathBase(ports: Ports, path: string, kind: 'file' | 'folder', scopes: readonly Scope[]): BaseSet {
  const label = shownPath(ports, path);
  if (kind === 'file')
    return { label, files: [{ file: label, text: ports.files.read(path) }], released: [], named: true };
  const names = ports.files.list(path).filter(isContractName);
  // An empty base would make every contract a new one, and every check pass.
  if (names.length === 0)
    throw new CommandError('NO_CONTRACTS', EXIT.usage, `no contract in ${label}`, 'name a folder that holds some');
  const target = scopes.find((scope) => scope.kind === 'folder');
  const wanted = new Set(scopes.flatMap((scope) => (scope.kind === 'file' ? [basename(scope.path)] : [])));
  const files = names
    .filter((name) => target !== undefined || scopes.length === 0 || wanted.has(basename(name)))
    .map((name) => {
      const text = ports.files.read(join(path, name));
      // Nothing is checked, two folders are compared: a name in one is the same name in the other.
      if (scopes.length === 0) return { file: name, text };
      return { file: shownPath(ports, target === undefined ? scopeFile(scopes, name) : join(target.path, name)), text };
    });
  return { label, files, released: [], named: false };
}

function scopeFile(scopes: readonly Scope[], name: string): string {
  const scope = scopes.find(({ path }) => basename(path) === basename(name));
  return scope?.path ?? relative('.', name).split(sep).join('/');
}

export interface BaseContract {
  readonly file: string;
  /** Null: what stood there was no valid contract, so that nothing can be compared with it. */
  readonly contract: Contract | null;
}

export function parseBase(set: BaseSet): BaseContract[] {
  return parseFiles(set.files);
}

export function parseFiles(files: readonly BaseFile[]): BaseContract[] {
  return files.map(({ file, text }) => ({ file, contract: parseContract(text, file).contract }));
}
