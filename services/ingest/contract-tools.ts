/** The contract engine as the contract book uses it. */
import { isMap, isSeq, parseDocument } from 'yaml';
import { compileGate, selectTable } from '../../contracts/engine/compile.ts';
import { inferContract } from '../../contracts/engine/infer.ts';
import { ContractError, parseContract } from '../../contracts/engine/parse.ts';
import type { CatalogTable } from '../../contracts/engine/catalog.ts';
import type { ContractTools } from './contract-book.ts';

export const contractTools: ContractTools = {
  infer: (table, pipeline) => inferContract(table, { name: pipeline }).text,
  parse(text, file) {
    const { contract, findings } = parseContract(text, file);
    if (contract === null) throw new ContractError(findings);
    return contract;
  },
  select: (contract, live) => selectTable(contract, live),
  compile: (contract, live) => compileGate(contract, live),
  addColumns,
};

/** Adds to the text the columns that it lacks, as `infer` would write them; everything else, comments too, stays. */
function addColumns(text: string, file: string, table: CatalogTable): string {
  const document = parseDocument(text);
  const fresh = parseDocument(inferContract(table, { name: 'evolved' }).text);
  const target = document.getIn(['schema', 0, 'properties']);
  const source = fresh.getIn(['schema', 0, 'properties']);
  if (!isSeq(target) || !isSeq(source)) throw new RangeError(`${file} has no list of properties`);
  const nameOf = (node: unknown): unknown => (isMap(node) ? node.get('name') : undefined);
  const idOf = (node: unknown): unknown => (isMap(node) ? node.get('id') : undefined);
  const known = new Set(target.items.map(nameOf));
  const ids = new Set(target.items.map(idOf));
  const added = source.items.filter((item) => !known.has(nameOf(item)));
  if (added.length === 0) return text;
  for (const item of added) {
    if (isMap(item)) {
      const id = idOf(item);
      if (ids.has(id)) item.set('id', `${String(id)}_${ids.size + 1}`);
      ids.add(idOf(item));
      // Rows from before the column have no value for it, whatever the source asks of new ones.
      item.delete('required');
    }
    target.items.push(item);
  }
  return document.toString({ lineWidth: 0 });
}
