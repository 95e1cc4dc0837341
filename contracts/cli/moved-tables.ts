/** Tables that left one contract for another: what they promised before, and whether they are less private now. */
import type { MovedTable } from '../engine/compat/assess.ts';
import type { Contract, TableContract } from '../engine/model.ts';
import type { BaseContract } from './base.ts';
import type { ContractFile } from './contract-set.ts';
import { sourceName } from '../engine/source-name.ts';

export interface MovedTables {
  into(contract: Contract): readonly MovedTable[];
  /** File that now describes a table of the base's contract; null: none does. */
  placeOf(contract: Contract): string | null;
}

/** @param baseOf what a contract was in the base; null: it is new */
export function movedTables(
  bases: readonly BaseContract[],
  files: readonly ContractFile[],
  baseOf: (contract: Contract) => Contract | null,
  label: string,
): MovedTables {
  const heads = files.flatMap(({ file, contract }) => (contract === null ? [] : [{ file, contract }]));
  const before = bases.flatMap(({ contract }) => (contract === null ? [] : [contract]));
  const keyOf = (contract: Contract, table: TableContract): string => {
    const { schema, table: name } = sourceName(contract, table);
    return `${schema}.${name}`;
  };
  const find = (contract: Contract, key: string): TableContract | null =>
    contract.tables.find((table) => keyOf(contract, table) === key) ?? null;
  return {
    into(contract) {
      const own = baseOf(contract);
      return contract.tables.flatMap((to): MovedTable[] => {
        const key = keyOf(contract, to);
        if (own !== null && (find(own, key) !== null || own.tables.some((table) => same(table, to)))) return [];
        for (const donor of before) {
          const from = donor === own ? null : find(donor, key);
          const still = heads.some((head) => baseOf(head.contract) === donor && find(head.contract, key) !== null);
          if (from !== null && !still) return [{ from, to, label: `${donor.id} in ${label}` }];
        }
        return [];
      });
    },
    placeOf(contract) {
      const keys = contract.tables.map((table) => keyOf(contract, table));
      return heads.find((head) => keys.some((key) => find(head.contract, key) !== null))?.file ?? null;
    },
  };
}

const same = (a: TableContract, b: TableContract): boolean => (a.id ?? a.name) === (b.id ?? b.name);
