import { describe, expect, it } from 'vitest';

import { lintContract } from './lint.ts';

const rule = (implementation: string): string => `apiVersion: v3.1.0
kind: DataContract
id: x
version: 1.0.0
status: active
schema:
  - name: t
    quality:
      - id: r
        type: custom
        engine: cel
        implementation: ${implementation}
    properties:
      - {name: id, logicalType: integer, physicalType: bigint, primaryKey: true, required: true}
`;

/** `line:column` of the rule's error. */
function place(implementation: string): string {
  const [finding] = lintContract(rule(implementation), 'x').findings.filter(({ code }) => code === 'RULE_INVALID');
  return `${finding?.line}:${finding?.column}`;
}

describe('errors inside a CEL rule', () => {
  it.each([
    ['row.id > 0 && row.nope > 0', '12:39'],
    ["'row.id > 0 && row.nope > 0'", '12:40'],
    ['\'"it\'\'s" != "" && row.nope > 0\'', '12:43'],
    ['"row.id > 0 && row.nope > 0"', '12:40'],
    ['|\n          row.id > 0 &&\n          row.nope > 0', '14:11'],
    ['>\n          row.id > 0 &&\n          row.nope > 0', '12:25'],
  ])('%j at %s', (implementation, expected) => {
    expect(place(implementation)).toBe(expected);
  });
});
