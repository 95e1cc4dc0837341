/** What an export gives: the text, and what of the contract the target cannot say. With `--strict` a lossy export fails. */
import type { Contract, TableContract } from '../model.ts';
import { placeOf } from '../rules/rule-meta.ts';

export interface LossyItem {
  /** `orders.total` or `orders.orders_rows`. */
  readonly subject: string;
  readonly message: string;
}

export interface ExportResult {
  readonly text: string;
  readonly lossy: readonly LossyItem[];
}

export type TableExport = (contract: Contract, table: TableContract) => ExportResult;

/** Rules that a schema language cannot carry, whatever it is: those on the table, and row rules that are code. */
export function lostRules(table: TableContract, target: string): LossyItem[] {
  return table.rules.flatMap((rule) => {
    if (rule.kind === 'text' || (rule.kind === 'library' && placeOf(rule) === 'row')) return [];
    return [
      {
        subject: `${table.name}.${rule.id}`,
        message: `${target} has no place for ${rule.kind === 'library' ? rule.metric : rule.kind} rules`,
      },
    ];
  });
}
