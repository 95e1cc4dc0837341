/** Contract files by path: which there are, and what lint says of each. */
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import type { Finding } from '../engine/finding.ts';
import { lintContract } from '../engine/lint.ts';
import type { Contract } from '../engine/model.ts';
import { CommandError, EXIT } from './exit-code.ts';
import { fileFault } from './file-fault.ts';
import type { Ports } from './ports.ts';
import { matchesTable } from './table-name.ts';

/** A path as given: a contract, or a folder of contracts. */
export interface Scope {
  readonly path: string;
  /** The path itself, or the folder that the file stands in. */
  readonly folder: string;
  readonly kind: 'file' | 'folder';
}

export interface ContractFile {
  /** As shown: relative to the working folder, with `/`. */
  readonly file: string;
  readonly text: string;
  /** Null when lint has errors. */
  readonly contract: Contract | null;
  readonly findings: readonly Finding[];
}

const SUFFIX = /\.odcs\.ya?ml$/;
export const isContractName = (path: string): boolean => SUFFIX.test(path);

export function openScopes(ports: Ports, paths: readonly string[]): Scope[] {
  return paths.map((given) => {
    const path = resolve(ports.cwd, given);
    const kind = ports.files.kind(path);
    if (kind === null)
      throw new CommandError(
        'PATH_MISSING',
        EXIT.usage,
        `${given} does not exist`,
        'name contract files, or folders that hold them',
      );
    return { path, kind, folder: kind === 'folder' ? path : dirname(path) };
  });
}

/** All files of the scopes, each once, in order. @throws CommandError NO_CONTRACTS */
export function loadContracts(ports: Ports, scopes: readonly Scope[], glob: string | null): ContractFile[] {
  const paths = new Set(
    scopes.flatMap(({ path, kind }) =>
      kind === 'file'
        ? [path]
        : ports.files
            .list(path)
            .filter(isContractName)
            .map((name) => join(path, name)),
    ),
  );
  if (paths.size === 0)
    throw new CommandError(
      'NO_CONTRACTS',
      EXIT.usage,
      `no contract in ${scopes.map(({ path }) => shownPath(ports, path)).join(', ')}`,
      'contracts are files named <schema>.<table>.odcs.yaml; `contracts infer` writes one',
    );
  const files = [...paths].map((path): ContractFile => {
    const file = shownPath(ports, path);
    try {
      const text = ports.files.read(path);
      return { file, text, ...lintContract(text, file) };
    } catch (error) {
      const unread = fileFault(error);
      if (unread === null) throw error;
      return { file, text: '', contract: null, findings: [unreadable(file, unread)] };
    }
  });
  const chosen = files.filter(({ contract }) => contract === null || touches(contract, glob));
  if (chosen.length === 0)
    throw new CommandError('NO_CONTRACTS', EXIT.usage, `no table matches ${glob ?? ''}`, 'correct --table');
  return chosen;
}

/** One that nobody can read is not passed over: it may be the one that breaks. */
function unreadable(file: string, reason: string): Finding {
  const message = `the file cannot be read: ${reason.slice(reason.lastIndexOf(': ') + 2)}`;
  return { level: 'error', code: 'FILE_UNREADABLE', message, file, line: 1, column: 1, subject: '', hint: null };
}

export function touches(contract: Contract, glob: string | null): boolean {
  return glob === null || contract.tables.some((table) => matchesTable(glob, contract, table));
}

export function shownPath(ports: Ports, path: string): string {
  const short = relative(ports.cwd, path);
  const shown = short === '' ? '.' : short.startsWith('..') || isAbsolute(short) ? path : short;
  return shown.split(sep).join('/');
}
