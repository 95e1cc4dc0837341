import { describe, expect, it } from 'vitest';

import { compileGate } from './compile.ts';
import type { GateRow } from './gate.ts';
import type { Contract } from './model.ts';
import { ContractError, parseContract } from './parse.ts';
import { applyPrivacy, createHasher, lakeMapping, privacyPlan } from './privacy.ts';

const KEY = Buffer.from('0123456789abcdef0123456789abcdef');

function contract(stage: string): Contract {
  const pii = (action: string): string =>
    `customProperties: [{property: piiAction, value: '${action}'}, {property: piiStage, value: ${stage}}]`;
  const { contract: parsed, findings } = parseContract(
    `apiVersion: v3.1.0
kind: DataContract
id: x
version: 1.0.0
status: active
schema:
  - name: t
    properties:
      - {name: id, logicalType: integer, physicalType: bigint, primaryKey: true, required: true}
      - {name: email, logicalType: string, physicalType: varchar(20), logicalTypeOptions: {format: email, maxLength: 20}, required: true, ${pii('hash')}}
      - {name: phone, logicalType: string, physicalType: text, ${pii('mask')}}
      - {name: born, logicalType: date, physicalType: date, ${pii('null')}}
      - {name: ssn, logicalType: integer, physicalType: bigint, required: true, ${pii('drop')}}
`,
    't.odcs.yaml',
  );
  if (parsed === null) throw new ContractError(findings);
  return parsed;
}

const row = (): GateRow => ({ id: 1, email: 'ana@example.com', phone: '123', born: '1990-01-01', ssn: 123_456_789n });

describe('privacy', () => {
  it('hashes with HMAC-SHA-256, masks, nulls and drops, and leaves NULL and absent alone', () => {
    const [table] = contract('before-lake').tables;
    const plan = table === undefined ? null : privacyPlan(table, 'before-lake', createHasher(KEY));
    const changed = row();
    if (plan !== null) applyPrivacy(plan, changed);
    expect(changed['email']).toMatch(/^[0-9a-f]{64}$/);
    expect(changed).toMatchObject({ id: 1, phone: '***', born: null });
    expect(changed['ssn']).toBeUndefined();
    const partial: GateRow = { id: 1, email: null };
    if (plan !== null) applyPrivacy(plan, partial);
    expect(partial).toEqual({ id: 1, email: null });
  });

  it('agrees with RFC 4231 test case 1', () => {
    expect(createHasher(new Uint8Array(20).fill(0x0b))('Hi There')).toBe(
      'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
    );
  });

  it('hashes one value alike in whatever cell form it comes', () => {
    const hasher = createHasher(KEY);
    const plan = { columns: [{ name: 'v', action: 'hash' as const }], hasher };
    const forms = [42, 42n, '42'].map((v) => {
      const changed: GateRow = { v };
      applyPrivacy(plan, changed);
      return changed['v'];
    });
    expect(new Set(forms).size).toBe(1);
  });

  it('never lets clear text pass for lack of a key', () => {
    const [table] = contract('before-lake').tables;
    expect(() => table !== undefined && privacyPlan(table, 'before-lake', null)).toThrow(/no key is configured/);
    expect(() => createHasher(KEY.subarray(0, 8))).toThrow(/16 or more/);
    expect(table === undefined ? null : privacyPlan(table, 'before-log', null)).toBeNull();
  });

  it('keeps hashed and masked columns as text in the lake, and no dropped ones', () => {
    const columns = contract('before-lake').tables[0]?.columns ?? [];
    expect(columns.map((column) => lakeMapping(column, null)?.delta ?? 'gone')).toEqual([
      'long',
      'string',
      'string',
      'date',
      'gone',
    ]);
  });

  it('checks clear values before the lake, and replaced ones only for presence after the log', () => {
    const clear = compileGate(contract('before-lake'), null);
    expect(clear.check('insert', { ...row(), email: 'nobody' })?.map((v) => [v.ruleId, v.value])).toEqual([
      ['format:email', '***'],
    ]);
    const replaced = compileGate(contract('before-log'), null);
    expect(replaced.check('insert', { id: 1, email: 'f'.repeat(64), phone: '***', born: null })).toBeNull();
    expect(replaced.check('insert', { id: 1, email: null, phone: null, born: null })?.map((v) => v.code)).toEqual([
      'REQUIRED',
    ]);
  });
});
