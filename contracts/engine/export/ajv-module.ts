/** The JSON Schema as a CommonJS module whose export validates one row: for users who check rows without us. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import * as formats from 'ajv-formats';

import type { Contract, TableContract } from '../model.ts';
import type { ExportResult } from './export-result.ts';
import { exportJsonSchema } from './json-schema.ts';

export function exportAjvModule(contract: Contract, table: TableContract): ExportResult {
  const { text, lossy } = exportJsonSchema(contract, table);
  const ajv = new Ajv2020({ code: { source: true }, strict: false, allErrors: true, logger: false });
  formats.default.default(ajv);
  const validate = ajv.compile(JSON.parse(text) as object);
  return {
    text: `${standalone.default(ajv, validate)}\n`,
    lossy: lossy.map(({ subject, message }) => ({ subject, message: message.replaceAll('JSON Schema', 'ajv') })),
  };
}
