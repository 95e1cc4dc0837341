/** The exports by the names that the command takes. */
import type { Contract, TableContract } from '../model.ts';
import { exportAjvModule } from './ajv-module.ts';
import { exportAvro } from './avro.ts';
import { exportDeltaConstraints, exportDeltaDdl } from './delta-sql.ts';
import type { ExportResult } from './export-result.ts';
import { exportJsonSchema } from './json-schema.ts';
import { exportMarkdown } from './markdown.ts';
import { exportOdcs } from './odcs.ts';
import { exportPostgresDdl } from './postgres-ddl.ts';

export const EXPORT_TARGETS = [
  'jsonschema',
  'ajv',
  'delta-ddl',
  'delta-constraints',
  'postgres-ddl',
  'avro',
  'odcs',
  'markdown',
] as const;
export type ExportTarget = (typeof EXPORT_TARGETS)[number];

export function exportContract(contract: Contract, table: TableContract, target: ExportTarget): ExportResult {
  switch (target) {
    case 'jsonschema':
      return exportJsonSchema(contract, table);
    case 'ajv':
      return exportAjvModule(contract, table);
    case 'delta-ddl':
      return exportDeltaDdl(contract, table);
    case 'delta-constraints':
      return exportDeltaConstraints(contract, table);
    case 'postgres-ddl':
      return exportPostgresDdl(contract, table);
    case 'avro':
      return exportAvro(contract, table);
    case 'odcs':
      return exportOdcs(contract);
    case 'markdown':
      return exportMarkdown(contract, table);
  }
}
