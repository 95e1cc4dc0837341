/** `contracts.config.yaml` beside the contracts: what the command uses where its arguments are silent. */
import { join } from 'node:path';
import { COMPATIBILITY_MODES } from '../engine/model.ts';
import type { CompatibilityMode, Contract } from '../engine/model.ts';
import { didYouMean } from '../engine/nearest.ts';
import { locate, plain, readYaml } from '../engine/yaml-tree.ts';
import type { TreeNode, TreePath } from '../engine/yaml-tree.ts';
import { shownPath } from './contract-set.ts';
import { CommandError, EXIT } from './exit-code.ts';
import { matchesTable } from './table-name.ts';
import type { Ports } from './ports.ts';

export interface Settings {
  readonly defaults: Readonly<Partial<Record<DefaultName, string>>>;
  readonly strict: boolean;
  /** Glob → mode, for tables whose contract names none. */
  readonly modes: ReadonlyMap<string, CompatibilityMode>;
  /** Glob → who answers for a table whose contract names nobody. */
  readonly owners: ReadonlyMap<string, string>;
  /** Id that a contract once had → its id now. */
  readonly aliases: ReadonlyMap<string, string>;
}

const DEFAULT_NAMES = ['against', 'mode', 'failOn', 'format', 'source', 'lake', 'data', 'config'] as const;
export type DefaultName = (typeof DEFAULT_NAMES)[number];
const SECTIONS = ['defaults', 'modes', 'owners', 'aliases'] as const;
export const SETTINGS_FILE = 'contracts.config.yaml';

export const NO_SETTINGS: Settings = {
  defaults: {},
  strict: false,
  modes: new Map(),
  owners: new Map(),
  aliases: new Map(),
};

/** Of the first folder that has the file. @throws CommandError SETTINGS_INVALID with file:line:column */
export function readSettings(ports: Ports, folders: readonly string[]): Settings {
  const path = folders.map((folder) => join(folder, SETTINGS_FILE)).find((file) => ports.files.kind(file) === 'file');
  if (path === undefined) return NO_SETTINGS;
  const file = shownPath(ports, path);
  const { root, problems } = readYaml(ports.files.read(path));
  const [problem] = problems;
  if (problem !== undefined)
    throw new CommandError(
      'SETTINGS_INVALID',
      EXIT.usage,
      `${file}:${problem.at.line}:${problem.at.column}: ${problem.message}`,
      'correct the YAML',
    );
  return settingsOf(root, file, ports.env);
}

function settingsOf(root: TreeNode | null, file: string, env: Ports['env']): Settings {
  const fail = (path: TreePath, message: string, remedy: string): CommandError => {
    const at = locate(root, path);
    return new CommandError('SETTINGS_INVALID', EXIT.usage, `${file}:${at.line}:${at.column}: ${message}`, remedy);
  };
  if (root?.kind !== 'map') throw fail([], 'a map was expected', `it may hold ${SECTIONS.join(', ')}`);
  const section = (name: (typeof SECTIONS)[number]): Map<string, string> => {
    const node = root.entries.get(name)?.value;
    if (node === undefined) return new Map();
    const value = node.kind === 'map' ? plain(node) : null;
    if (typeof value !== 'object' || value === null) throw fail([name], `${name} must be a map`, 'write name: value');
    return new Map(
      Object.entries(value).map(([key, item]) => {
        if (typeof item !== 'string' && typeof item !== 'boolean')
          throw fail([name, key], `${key} must be text`, 'write it in quotes');
        return [key, substitute(String(item), env, () => fail([name, key], `${item} names no variable`, 'export it'))];
      }),
    );
  };
  for (const key of root.entries.keys())
    if (!SECTIONS.some((name) => name === key))
      throw fail([key], `unknown key '${key}'`, didYouMean(key, SECTIONS) ?? '');
  const defaults = section('defaults');
  const strict = defaults.get('strict');
  defaults.delete('strict');
  for (const key of defaults.keys())
    if (!DEFAULT_NAMES.some((name) => name === key))
      throw fail(['defaults', key], `unknown default '${key}'`, didYouMean(key, [...DEFAULT_NAMES, 'strict']) ?? '');
  const modes = new Map<string, CompatibilityMode>();
  for (const [glob, word] of section('modes')) {
    const mode = COMPATIBILITY_MODES.find((name) => name === word);
    if (mode === undefined)
      throw fail(['modes', glob], `unknown mode '${word}'`, didYouMean(word, COMPATIBILITY_MODES) ?? '');
    modes.set(glob, mode);
  }
  return {
    defaults: Object.fromEntries(defaults),
    strict: strict === 'true',
    modes,
    owners: section('owners'),
    aliases: section('aliases'),
  };
}

/** `${NAME}` → the variable, so that no password stands in the file. */
function substitute(text: string, env: Ports['env'], missing: () => CommandError): string {
  return text.replaceAll(/\$\{([A-Za-z_]\w*)\}/g, (_all, name: string) => {
    const value = env[name];
    if (value === undefined) throw missing();
    return value;
  });
}

export function settingFor<T>(map: ReadonlyMap<string, T>, contract: Contract): T | null {
  for (const [glob, value] of map)
    if (contract.tables.some((table) => matchesTable(glob, contract, table))) return value;
  return null;
}
