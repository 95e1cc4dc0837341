import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { lintContract } from '../lint.ts';
import { INVALID } from './invalid.ts';
import { officialValidators } from './official.ts';
import { STRICTER } from './stricter.ts';
import { VALID } from './valid.ts';

const CORPUS = [...VALID, ...INVALID, ...STRICTER];

const validators = officialValidators();

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

  describe.skipIf(validators === null)('official schemas', () => {
    it.each(CORPUS.map((entry) => [entry.name, entry] as const))('%s', (_name, entry) => {
      const minor = entry.text.includes('v3.2.0') ? '3.2' : '3.1';
      const document: unknown = parse(entry.text, { uniqueKeys: false, merge: true });
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
