/** What no schema language has a word for, whatever it is: rules on the table or in code, service levels, privacy, policies. */
import type { Column, Contract, TableContract } from '../model.ts';
import { isClassified } from '../model.ts';
import { placeOf } from '../rules/rule-meta.ts';
import type { LossyItem } from './export-result.ts';

export interface Carries {
  /** As it stands in messages: `JSON Schema`. */
  readonly target: string;
  /** The target describes the lake's rows, where personal values are replaced already; else rows as the source has them. */
  readonly lake: boolean;
  readonly keys: boolean;
  readonly uniqueness: boolean;
  readonly defaults: boolean;
  readonly partitions: boolean;
  readonly unknownColumns: boolean;
  /** Rules that the target says in another way: their ids. */
  readonly rules: ReadonlySet<string>;
}

export function lostPromises(contract: Contract, table: TableContract, carries: Carries): LossyItem[] {
  return [
    ...lostRules(table, carries),
    ...lostServiceLevels(contract, table, carries.target),
    ...lostPolicies(table, carries),
    ...table.columns.flatMap((column) => lostOfColumn(column, table, carries)),
  ];
}

function lostRules(table: TableContract, carries: Carries): LossyItem[] {
  return table.rules.flatMap((rule) => {
    // A row-enforced count rule is a condition of its column: the target says it there, or lists it there.
    if ((rule.kind === 'library' && placeOf(rule) === 'row') || carries.rules.has(rule.id)) return [];
    return [
      {
        subject: `${table.name}.${rule.id}`,
        message: `${carries.target} has no place for ${rule.kind === 'library' ? rule.metric : rule.kind === 'custom' ? rule.engine : rule.kind} rules`,
      },
    ];
  });
}

function lostServiceLevels(contract: Contract, table: TableContract, target: string): LossyItem[] {
  return contract.sla.flatMap((sla) => {
    const of = sla.element?.split('.')[0] ?? table.name;
    return of === table.name || contract.tables.length === 1
      ? [
          {
            subject: `${table.name}.${sla.id ?? sla.property}`,
            message: `${target} has no place for the service level ${sla.property}`,
          },
        ]
      : [];
  });
}

/** Only what differs from the default: silence means the default on both sides. */
function lostPolicies(table: TableContract, carries: Carries): LossyItem[] {
  const words = [
    table.compatibility !== null && table.compatibility !== 'FORWARD_TRANSITIVE' ? 'compatibility' : null,
    !carries.unknownColumns && table.unknownColumns !== null && table.unknownColumns !== 'evolve'
      ? 'unknownColumns'
      : null,
    table.maxQuarantineRatio === null ? null : 'maxQuarantineRatio',
    table.onViolation === null ? null : 'onViolation',
    table.allowDrop ? 'allowDrop' : null,
  ].filter((word) => word !== null);
  return words.length === 0
    ? []
    : [{ subject: table.name, message: `${carries.target} has no place for ${words.join(', ')}` }];
}

function lostOfColumn(column: Column, table: TableContract, carries: Carries): LossyItem[] {
  const lost: string[] = [];
  const { target } = carries;
  if (column.piiAction === 'drop' && carries.lake) lost.push('left out: piiAction drop keeps it out of the lake');
  else if (column.piiAction !== null)
    lost.push(
      carries.lake
        ? `${target} shows the column as piiAction ${column.piiAction} leaves it, and has no place for the action`
        : `${target} describes the source's values: piiAction ${column.piiAction} is lost`,
    );
  else if (isClassified(column)) lost.push(`${target} has no place for its classification`);
  if (column.piiAction !== 'drop' || !carries.lake) {
    if (column.unique && !carries.uniqueness) lost.push(`${target} has no place for uniqueness`);
    if (column.keyPosition > 0 && !carries.keys) lost.push(`${target} has no place for the primary key`);
    if (column.default !== undefined && !carries.defaults) lost.push(`${target} has no place for its default`);
    if (column.partitionPosition > 0 && !carries.partitions) lost.push(`${target} has no place for partitions`);
  }
  return lost.map((message) => ({ subject: `${table.name}.${column.name}`, message }));
}
