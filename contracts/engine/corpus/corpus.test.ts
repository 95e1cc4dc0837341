import { existsSync, readFileSync } from 'node:fs';

import { Ajv2019 } from 'ajv/dist/2019.js';
import type { ValidateFunction } from 'ajv/dist/2019.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { lintContract } from '../lint.ts';
import { INVALID } from './invalid.ts';
import { STRICTER } from './stricter.ts';
import { VALID } from './valid.ts';

const CORPUS = [...VALID, ...INVALID, ...STRICTER];

const FILES = {
  '3.1': '../shared/odcs/odcs-3.1.0.upstream.schema.json',
  '3.2': '../shared/odcs/odcs-3.2.0.pypi-patched.schema.json',
} as const;
const present = Object.values(FILES).every((file) => existsSync(file));
if (!present) process.stdout.write('official ODCS schemas are not at ../shared/odcs: the comparison is skipped\n');

function compileOfficial(file: string): ValidateFunction {
  const ajv = new Ajv2019({ strict: false, allErrors: false, validateFormats: true });
  for (const [name, format] of Object.entries(fullFormats)) ajv.addFormat(name, format as never);
  return ajv.compile(JSON.parse(readFileSync(file, 'utf8')) as object);
}

describe('corpus', () => {
  it('has 60 entries or more, each with its own name and a reason where ours is stricter', () => {
    expect(CORPUS.length).toBeGreaterThanOrEqual(60);
    expect(new Set(CORPUS.map((entry) => entry.name)).size).toBe(CORPUS.length);
    for (const entry of CORPUS)
      expect([entry.name, entry.stricter !== undefined]).toEqual([
        entry.name,
        entry.official && entry.errors.length > 0,
      ]);
  });

  it.each(CORPUS.map((entry) => [entry.name, entry] as const))('ours: %s', (_name, entry) => {
    const { findings, contract } = lintContract(entry.text, 'c.odcs.yaml');
    const errors = [
      ...new Set(findings.filter((finding) => finding.level === 'error').map((finding) => finding.code)),
    ].toSorted();
    expect(errors).toEqual([...entry.errors]);
    expect(contract === null).toBe(entry.errors.length > 0);
    for (const finding of findings) expect(finding.line * finding.column).toBeGreaterThan(0);
  });

  describe.skipIf(!present)('official schemas', () => {
    const validators = present ? { '3.1': compileOfficial(FILES['3.1']), '3.2': compileOfficial(FILES['3.2']) } : null;
    it.each(CORPUS.map((entry) => [entry.name, entry] as const))('%s', (_name, entry) => {
      const minor = entry.text.includes('v3.2.0') ? '3.2' : '3.1';
      const document: unknown = parse(entry.text, { uniqueKeys: false });
      expect(validators?.[minor](document)).toBe(entry.official);
    });

    it('accept the full examples, and so do we', () => {
      for (const file of ['../shared/odcs/orders.odcs.yaml', '../shared/odcs/orders.small.odcs.yaml']) {
        const text = readFileSync(file, 'utf8');
        expect(validators?.['3.1'](parse(text))).toBe(true);
        expect(lintContract(text, file).findings.filter((finding) => finding.level !== 'info')).toEqual([]);
      }
    });
  });
});
