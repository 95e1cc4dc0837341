/** The contract engine as the contract book uses it. */
import { addColumns } from '../../contracts/engine/add-columns.ts';
import { compileGate, selectTable } from '../../contracts/engine/compile.ts';
import { inferContract } from '../../contracts/engine/infer.ts';
import { lintContract } from '../../contracts/engine/lint.ts';
import { ContractError } from '../../contracts/engine/parse.ts';
import { sourceConflicts } from '../../contracts/engine/source-conflict.ts';
import type { ContractTools } from './contract-book.ts';

export const contractTools: ContractTools = {
  infer: (table, pipeline) => inferContract(table, { name: pipeline }).text,
  parse(text, file) {
    const { contract, findings } = lintContract(text, file);
    if (contract === null) throw new ContractError(findings);
    return contract;
  },
  select: (contract, live) => selectTable(contract, live),
  compile: (contract, live) => compileGate(contract, live),
  conflicts: (contract, table, live) => sourceConflicts(contract, table, live),
  addColumns,
};
