/** `contracts diff A [B]`: every change from one version of the contracts to another, with what it breaks, and no verdict. */
import { CHANGES } from '../engine/compat/change.ts';
import type { Change, ChangeKind, Effect } from '../engine/compat/change.ts';
import { compareContracts } from '../engine/compat/compare-contracts.ts';
import type { Contract } from '../engine/model.ts';
import { openBase, parseBase } from './base.ts';
import type { BaseContract } from './base.ts';
import { loadContracts, openScopes, touches } from './contract-set.ts';
import type { Scope } from './contract-set.ts';
import { CommandError, EXIT } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import type { Ports } from './ports.ts';
import { JSON_SCHEMA_VERSION } from './report/json.ts';
import type { Settings } from './settings.ts';

export interface DiffOptions {
  readonly from: string;
  /** Null: the contracts as they stand in the folder. */
  readonly to: string | null;
  readonly folder: string;
  readonly table: string | null;
  readonly format: 'text' | 'json';
}

export interface ContractDiff {
  readonly id: string;
  readonly file: string;
  readonly before: Contract | null;
  readonly after: Contract | null;
  readonly changes: readonly Change[];
}

export async function runDiff(ports: Ports, options: DiffOptions, settings: Settings): Promise<ExitCode> {
  const scopes = ports.files.kind(options.folder) === null ? [] : openScopes(ports, [options.folder]);
  const before = await contractsOf(ports, options.from, scopes);
  const after = options.to === null ? headOf(ports, scopes, options) : await contractsOf(ports, options.to, scopes);
  const diffs = compareSets(before, after, settings).filter(({ before: old, after: now }) =>
    [old, now].some((contract) => contract !== null && touches(contract, options.table)),
  );
  ports.out(options.format === 'json' ? jsonDiff(diffs) : textDiff(diffs));
  return EXIT.clean;
}

function headOf(ports: Ports, scopes: readonly Scope[], options: DiffOptions): BaseContract[] {
  const files = loadContracts(ports, scopes.length > 0 ? scopes : openScopes(ports, [options.folder]), null);
  return files.map(({ file, contract, findings }) => ({ file, contract: contract ?? invalid(file, findings.length) }));
}

async function contractsOf(ports: Ports, place: string, scopes: readonly Scope[]): Promise<BaseContract[]> {
  const set = await openBase(ports, place, scopes, { releases: false, exact: true });
  return parseBase(set).map(({ file, contract }) => ({ file, contract: contract ?? invalid(`${place}: ${file}`, 1) }));
}

function invalid(file: string, count: number): never {
  throw new CommandError(
    'CONTRACT_INVALID',
    EXIT.usage,
    `${file} is no valid contract (${count} finding${count === 1 ? '' : 's'})`,
    'run `contracts check` on it',
  );
}

/** Pairs by id, then by file; two single contracts are a pair whatever they are called. */
export function compareSets(
  before: readonly BaseContract[],
  after: readonly BaseContract[],
  settings: Pick<Settings, 'aliases'>,
): ContractDiff[] {
  const idOf = ({ contract }: BaseContract): string | null =>
    contract === null ? null : (settings.aliases.get(contract.id) ?? contract.id);
  const left = new Set(before);
  const take = (test: (item: BaseContract) => boolean): BaseContract | null => {
    const found = [...left].find(test) ?? null;
    if (found !== null) left.delete(found);
    return found;
  };
  const single = before.length === 1 && after.length === 1;
  const pairs = after.map((now): [BaseContract | null, BaseContract | null] => [
    take((old) => idOf(old) === idOf(now)) ?? take((old) => old.file === now.file || single),
    now,
  ]);
  for (const old of left) pairs.push([old, null]);
  return pairs.map(([old, now]) => {
    const [first, second] = [old?.contract ?? null, now?.contract ?? null];
    return {
      id: second?.id ?? first?.id ?? '',
      file: now?.file ?? old?.file ?? '',
      before: first,
      after: second,
      changes: changesOf(first, second),
    };
  });
}

function changesOf(before: Contract | null, after: Contract | null): Change[] {
  if (before !== null && after !== null) return compareContracts(before, after);
  const tables = (after ?? before)?.tables ?? [];
  return tables.map(({ name, path }) => ({
    code: before === null ? 'TABLE_ADDED' : 'TABLE_REMOVED',
    subject: name,
    message: before === null ? 'table added' : 'the table’s contract is gone',
    path,
  }));
}

const WORDS: Readonly<Record<Effect, string>> = { ok: 'ok', breaks: 'breaks', undecided: '?' };

function textDiff(diffs: readonly ContractDiff[]): string {
  const lines: string[] = [];
  for (const { file, before, after, changes } of diffs) {
    if (changes.length === 0) continue;
    lines.push(`${file}  ${before?.version ?? 'none'} -> ${after?.version ?? 'none'}`);
    const code = Math.max(...changes.map((change) => change.code.length));
    const subject = Math.max(...changes.map((change) => change.subject.length));
    for (const change of changes) {
      const kind: ChangeKind = CHANGES[change.code];
      const effects = `backward ${WORDS[kind.backward]}, forward ${WORDS[kind.forward]}`;
      lines.push(`  ${change.code.padEnd(code)}  ${change.subject.padEnd(subject)}  ${change.message}  [${effects}]`);
    }
  }
  return lines.length === 0 ? 'no changes\n' : `${lines.join('\n')}\n`;
}

function jsonDiff(diffs: readonly ContractDiff[]): string {
  const contracts = diffs.map(({ id, file, before, after, changes }) => ({
    id,
    file,
    versionBefore: before?.version ?? null,
    version: after?.version ?? null,
    changes: changes.map(({ code, subject, message }) => {
      const { backward, forward }: ChangeKind = CHANGES[code];
      return { code, subject, message, backward, forward };
    }),
  }));
  return `${JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, command: 'diff', contracts }, null, 2)}\n`;
}
