import { describe, expect, it } from 'vitest';
import { inferContract } from './infer.ts';
import { readDdl } from './infer-ddl.ts';
import { lintContract } from './lint.ts';
import { parseContract } from './parse.ts';
import { updateContract } from './update-contract.ts';
import type { UpdateResult } from './update-contract.ts';

const HEAD = `apiVersion: v3.1.0
kind: DataContract
id: a.public.t
version: 1.0.0
status: active
schema:
  - name: t
    logicalType: object
    properties:
`;

function update(properties: string, ddl: string): UpdateResult {
  const text = `${HEAD}${properties}`;
  const { contract, findings } = parseContract(text, 't.odcs.yaml');
  expect(findings).toEqual([]);
  const [table] = readDdl(ddl).tables;
  if (contract === null || table === undefined) throw new Error('no contract');
  const first = contract.tables[0];
  if (first === undefined) throw new Error('no table');
  const result = updateContract(text, contract, first, inferContract(table, { name: 'a' }));
  // Whatever was edited, the result reads and holds together.
  expect(lintContract(result.text, 't.odcs.yaml').findings.filter(({ level }) => level === 'error')).toEqual([]);
  return { ...result, text: result.text.slice(HEAD.length) };
}

describe('updateContract', () => {
  it('block style: keys go under the name, comments stay at their lines', () => {
    const { text } = update(
      `      - name: id # the key
        # a whole number
        logicalType: integer
        logicalTypeOptions:
          format: i32   # small
        physicalType: integer
      # trailing words
`,
      'create table t (id bigint primary key);',
    );
    expect(text).toBe(`      - name: id # the key
        id: id
        required: true
        primaryKey: true
        primaryKeyPosition: 1
        # a whole number
        logicalType: integer
        logicalTypeOptions:
          format: i64   # small
        physicalType: bigint
      # trailing words
`);
  });

  it('a list in block style takes new labels, a new column comes last, before what follows the table', () => {
    const { text, changes } = update(
      `      - id: kind
        name: kind
        logicalType: string
        physicalType: mood
        quality:
          - metric: invalidValues
            arguments:
              validValues:
                - sad
                - ok  # so so
            mustBe: 0
tags: [x]
`,
      "create type mood as enum ('sad', 'ok', 'no'); create table t (kind mood, amount integer);",
    );
    expect(changes).toEqual(['kind: +no', 'amount: added (integer)']);
    // Quoted, or YAML 1.1 would read false.
    expect(text).toContain("                - ok  # so so\n                - 'no'\n");
    expect(text).toMatch(/mustBe: 0\n {6}- id: amount\n {8}name: amount\n[^]*physicalType: integer\ntags: \[x\]\n$/);
  });

  it('a number keeps its digits, and nothing to do is no edit', () => {
    const properties =
      "      - {id: x, name: x, logicalType: number, logicalTypeOptions: {maximum: 12345678901234567890.10}, physicalType: 'numeric(30,2)'}\n";
    expect(update(properties, 'create table t (x numeric(30,2));')).toEqual({
      text: properties,
      changes: [],
      left: [],
    });
  });

  it('what a person said otherwise is left and told', () => {
    const { text, left } = update(
      '      - {id: a, name: a, logicalType: string, physicalType: text, required: false}\n      - {id: b, name: b, logicalType: string, physicalType: text, required: true}\n',
      'create table t (a text not null, b text);',
    );
    expect(text).toContain('required: false}');
    expect(left).toEqual([
      'a is NOT NULL, the contract says it is not required',
      'b is nullable, the contract requires it',
    ]);
  });
});
