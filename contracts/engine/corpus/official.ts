/** The official schemas, where they are at hand: judges of the tests, no part of the product. */
import { existsSync, readFileSync } from 'node:fs';
import { Ajv2019 } from 'ajv/dist/2019.js';
import type { ValidateFunction } from 'ajv/dist/2019.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';

const FILES = {
  '3.1': '../shared/odcs/odcs-3.1.0.upstream.schema.json',
  '3.2': '../shared/odcs/odcs-3.2.0.pypi-patched.schema.json',
} as const;

/** Null where the files are not there. */
export function officialValidators(): Readonly<Record<keyof typeof FILES, ValidateFunction>> | null {
  if (!Object.values(FILES).every((file) => existsSync(file))) {
    process.stdout.write('official ODCS schemas are not at ../shared/odcs: the comparison is skipped\n');
    return null;
  }
  return { '3.1': compileOfficial(FILES['3.1']), '3.2': compileOfficial(FILES['3.2']) };
}

function compileOfficial(file: string): ValidateFunction {
  const ajv = new Ajv2019({ strict: false, allErrors: false, validateFormats: true });
  for (const [name, format] of Object.entries(fullFormats)) ajv.addFormat(name, format as never);
  return ajv.compile(JSON.parse(readFileSync(file, 'utf8')) as object);
}
