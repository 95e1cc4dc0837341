/** Which contract of the base is which of those checked: by id, since files move, then by file. */
import { dirname } from 'node:path';
import { tableRemoved } from '../engine/compat/assess.ts';
import type { Base, MovedTable } from '../engine/compat/assess.ts';
import type { Finding } from '../engine/finding.ts';
import type { Contract } from '../engine/model.ts';
import { parseContract } from '../engine/parse.ts';
import { parseBase, parseFiles } from './base.ts';
import type { BaseContract, BaseSet } from './base.ts';
import { modeOf } from './check-options.ts';
import type { CheckOptions } from './check-options.ts';
import { touches } from './contract-set.ts';
import type { ContractFile } from './contract-set.ts';
import { findingAt } from './drift-finding.ts';
import { movedTables } from './moved-tables.ts';
import type { Suite } from './report/report.ts';
import type { Settings } from './settings.ts';

export interface Comparison {
  /** The base first, then released versions. Empty: the contract is new. */
  basesOf(file: ContractFile): readonly Base[];
  /** Tables of the contract that stood in another one. */
  movedInto(contract: Contract): readonly MovedTable[];
  notesOf(file: ContractFile): readonly Finding[];
  removed(options: CheckOptions, today: string): Suite[];
}

export async function matchBase(set: BaseSet, files: readonly ContractFile[], settings: Settings): Promise<Comparison> {
  const bases = parseBase(set);
  const idOf = (contract: Contract): string => settings.aliases.get(contract.id) ?? contract.id;
  /** What else stood in a folder that a contract came from, and is gone from it, is a table removed, too. */
  async function movedBases(): Promise<BaseContract[]> {
    const fresh = files.filter((file) => file.contract !== null && !matchOf.has(file));
    if (fresh.length === 0 || set.elsewhere === undefined) return [];
    const others = parseFiles(await set.elsewhere()).filter(({ contract }) => contract !== null);
    for (const file of fresh)
      pair(
        file,
        others.find(({ contract }) => contract !== null && idOf(contract) === file.contract?.id),
      );
    const left = new Set(others.filter((base) => taken.has(base)).map(({ file }) => dirname(file)));
    return others.filter(({ file }) => left.has(dirname(file)));
  }
  const taken = new Map<BaseContract, ContractFile>();
  const matchOf = new Map<ContractFile, BaseContract>();
  const pair = (file: ContractFile, base: BaseContract | undefined): void => {
    if (base === undefined || taken.has(base) || matchOf.has(file)) return;
    taken.set(base, file);
    matchOf.set(file, base);
  };
  for (const file of files)
    pair(
      file,
      bases.find(({ contract }) => contract !== null && file.contract !== null && idOf(contract) === file.contract.id),
    );
  for (const file of files)
    pair(
      file,
      bases.find((base) => base.file === file.file),
    );
  const [only] = files;
  if (set.named && only !== undefined && files.length === 1) pair(only, bases[0]);
  bases.push(...(await movedBases()));
  const released = set.released.map(({ label, file, text }) => ({
    label,
    file,
    contract: parseContract(text, file).contract,
  }));
  const headBase = new Map([...matchOf].map(([file, base]) => [file.contract, base.contract]));
  const moved = movedTables(bases, files, (contract) => headBase.get(contract) ?? null, set.label);
  return {
    movedInto: (contract) => moved.into(contract),
    basesOf(file) {
      const base = matchOf.get(file)?.contract ?? null;
      if (base === null) return [];
      const older = released.filter(
        ({ contract }) =>
          contract !== null && idOf(contract) === idOf(base) && contract.source.sha256 !== base.source.sha256,
      );
      return [
        { label: set.label, contract: base },
        ...older.flatMap(({ label, contract }) => (contract === null ? [] : [{ label, contract }])),
      ];
    },
    notesOf(file) {
      const { contract } = file;
      if (contract === null || matchOf.get(file)?.contract !== null) return [];
      const text = `what stood in ${set.label} is no valid contract: nothing is compared with it`;
      return [findingAt(contract, 'warning', 'BASE_INVALID', '', text, [])];
    },
    removed(options, day) {
      return bases.flatMap((base) => {
        const { contract, file } = base;
        if (contract === null || taken.has(base) || !touches(contract, options.table)) return [];
        const mode = modeOf(contract, options, settings);
        const place = moved.placeOf(contract);
        const finding = tableRemoved(
          { label: set.label, contract },
          file,
          { mode, strict: options.strict, today: day },
          place === null
            ? null
            : `${place} has its table: if that is the same contract, keep its id, or name it under aliases in contracts.config.yaml`,
        );
        const name = contract.tables.map((table) => table.name).join(', ');
        const facts = { id: contract.id, version: null, versionBefore: contract.version, mode, base: set.label };
        return [
          {
            file,
            name,
            heading: `${contract.version} -> removed  mode ${mode}, base ${set.label}`,
            facts,
            findings: [finding],
            outcomes: [],
          },
        ];
      });
    },
  };
}
