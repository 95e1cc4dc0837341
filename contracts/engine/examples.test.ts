import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { compileGate } from './compile.ts';
import { formatFinding } from './finding.ts';
import { lintContract } from './lint.ts';

const files = readdirSync('contracts').filter((name) => name.endsWith('.odcs.yaml'));

describe('shipped contracts', () => {
  it('are there', () => {
    expect(files).toEqual(expect.arrayContaining(['example.accounts.odcs.yaml', 'public.orders.odcs.yaml']));
  });

  it.each(files)('%s has no finding and compiles', (name) => {
    const { contract, findings } = lintContract(readFileSync(`contracts/${name}`, 'utf8'), name);
    expect(findings.map(formatFinding)).toEqual([]);
    expect(contract === null ? null : compileGate(contract, null).contractVersion).toBe('1.0.0');
  });

  it('judge events as they say', () => {
    const { contract } = lintContract(readFileSync('contracts/example.accounts.odcs.yaml', 'utf8'), 'accounts');
    const gate = contract === null ? null : compileGate(contract, null);
    const good = {
      id: 1,
      ref: '123e4567-e89b-12d3-a456-426614174000',
      email: 'ana@example.com',
      status: 'closed',
      balance: '9.50',
      rate: '0.125',
      labels: ['a', 'b'],
      settings: '{"theme": "dark", "limit": 9007199254740993}',
      created_at: '2024-01-02T03:04:05Z',
      closed_at: '2024-01-02T03:04:06Z',
    };
    expect(gate?.check('insert', { ...good })).toBeNull();
    expect(gate?.check('update', { id: 1, balance: '0.00' })).toBeNull();
    const bad = { ...good, email: 'nobody', balance: 'NaN', labels: ['a', 'a'], closed_at: '2023-01-01T00:00:00Z' };
    expect(gate?.check('insert', bad)?.map((v) => `${v.ruleId} ${v.action} ${v.value}`)).toEqual([
      'representable:balance fail NaN',
      'format:email quarantine ***',
      'uniqueItems:labels quarantine ["a","a"]',
      'closed_has_time quarantine null',
    ]);
  });
});
