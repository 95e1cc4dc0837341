/**
 * Where a live table no longer has what its contract says, so that not single rows but every one of them would break it: a
 * required column is gone, or a type is another one altogether. The table is stopped by name then, and no row is parked.
 * Wider and narrower types of one kind are no conflict: each value is checked by itself.
 */
import type { CatalogTable } from './catalog.ts';
import type { Contract, TableContract } from './model.ts';
import { mapColumn, mapContractColumn } from './type-table.ts';
import type { WireForm } from './type-table.ts';

export interface SourceConflict {
  readonly column: string;
  readonly line: number;
  readonly message: string;
  /** The edit that ends it. */
  readonly edit: string;
}

type Family =
  | 'whole number'
  | 'float'
  | Exclude<WireForm, 'int16' | 'int32' | 'int64' | 'uint32' | 'float32' | 'float64'>;

/** Values that reach the gate as text, which a contract may call text. */
const AS_TEXT: ReadonlySet<Family> = new Set(['text', 'decimal', 'date', 'timestamp', 'timestamptz', 'base64']);

export function sourceConflicts(contract: Contract, table: TableContract, live: CatalogTable): SourceConflict[] {
  const found: SourceConflict[] = [];
  for (const column of table.columns) {
    // What never reaches the lake may be anything.
    if (column.piiAction === 'drop') continue;
    const { line } = contract.source.locate(column.path);
    const there = live.columns.find(({ name }) => name === column.name);
    if (there === undefined) {
      if (column.required || column.keyPosition > 0)
        found.push({
          column: column.name,
          line,
          message: `column ${column.name} is required by its contract ${contract.version}, and the source has it no more`,
          edit: `take the column out, or set required: false: rows from before keep its values, later ones have NULL (renamed? give its new name, under the same id)`,
        });
      continue;
    }
    if (column.piiAction !== null && column.piiStage === 'before-log') continue;
    const ours = familyOf(mapContractColumn(column, there).wire);
    const theirs = familyOf(mapColumn(there).wire);
    if (ours === theirs || (ours === 'text' && AS_TEXT.has(theirs))) continue;
    const written =
      column.physicalTypes.postgres ?? column.physicalType ?? column.logicalType ?? 'a column without a type';
    found.push({
      column: column.name,
      line,
      message: `column ${column.name} is ${written} in its contract ${contract.version} and ${there.pgType} at the source`,
      edit: `write physicalType: '${there.pgType}', logicalType: ${mapColumn(there).logicalType} (a new major version)`,
    });
  }
  return found;
}

function familyOf(wire: WireForm): Family {
  switch (wire) {
    case 'int16':
    case 'int32':
    case 'int64':
    case 'uint32':
      return 'whole number';
    case 'float32':
    case 'float64':
      return 'float';
    default:
      return wire;
  }
}
