/**
 * Valid contracts with one or two things changed at random: what the official schema refuses, ours refuses; what ours refuses
 * besides has one of the codes below, each with its reason. `SLUICE_TEST_SEED` repeats a run, `SLUICE_TEST_MUTATIONS` lengthens it.
 */
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { lintContract } from '../lint.ts';
import { officialValidators } from './official.ts';
import { VALID } from './valid.ts';

const MUTATIONS = Number(process.env['SLUICE_TEST_MUTATIONS'] ?? 300);
const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? 5);

/** Why ours may say no where the official schema says yes. */
const STRICTER: Readonly<Record<string, string>> = {
  UNKNOWN_KEY: 'options of a boolean, and keys of servers, which the schema leaves open',
  UNKNOWN_VALUE: 'versions before 3.0, and words that only prose lists',
  MISSING_KEY: 'rules that say nothing; a schema; what a custom property needs',
  WRONG_TYPE: 'values where the schema takes anything, and only one kind makes sense',
  OPERATOR_VALUE: 'an operator that has no number',
  VERSION_FORMAT: 'the version gate compares versions',
  NO_COLUMNS: 'a gate without columns checks nothing',
  DUPLICATE_COLUMN: 'one name, two columns',
  DUPLICATE_ID: 'ids tell a rename from a drop and an add',
  DUPLICATE_NAME: 'one name, two things',
  NAME_CLASH: 'Delta tells names apart by more than case',
  KEY_POSITION: 'key positions count 1, 2, 3 …',
  LOGICAL_TYPE_MISSING: 'a column without any type',
  TYPE_CONTRADICTION: 'the same',
  CONTRADICTION: 'two words that cannot both be meant',
  BOUNDS_CROSSED: 'bounds that cross',
  CUSTOM_VALUE: 'our own words have their own values',
  CUSTOM_UNKNOWN: 'an unknown word on a rule of ours',
  PATTERN_REFUSED: 'patterns that do not run in linear time',
  RULE_INVALID: 'a rule that cannot be compiled',
  RULE_NESTED: 'a rule that nothing would count',
  SQL_REFUSED: 'SQL that is more than one SELECT',
  UNKNOWN_ENGINE: 'an engine that is not built in',
  SLA_ELEMENT: 'an SLA on what is not there',
  REFERENCE: 'a reference to what is not there',
  DELTA_TYPE_UNSUPPORTED: 'a type that the lake does not have',
  DROP_NOT_ALLOWED: 'drop has to be meant',
  OUT_OF_RANGE: 'an empty list where nothing would be checked: no table, no column',
  ARGUMENT_MISSING: 'a metric without what it counts',
  BOUND_UNUSABLE: 'a bound that is no value of the type',
  SLA_UNIT: 'a unit that is no span of time',
};

/** mulberry32 */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

type Tree = Record<string, unknown> | unknown[];
const WORDS = [
  'x',
  '',
  'true',
  'integer',
  'string',
  'v3.1.0',
  'library',
  'mustBe',
  'rows',
  '0',
  'https://a.b',
  'a b',
  '-1',
];
const KEYS = [
  'name',
  'id',
  'quality',
  'properties',
  'items',
  'required',
  'metric',
  'mustBe',
  'value',
  'type',
  'tags',
  'unit',
  'x',
  'nmae',
  'enum',
];

function nodesOf(root: Tree): Tree[] {
  const found: Tree[] = [root];
  for (const node of found)
    for (const child of Object.values(node)) if (typeof child === 'object' && child !== null) found.push(child as Tree);
  return found;
}

function mutate(root: Tree, random: (below: number) => number): string {
  const nodes = nodesOf(root);
  const node = nodes[random(nodes.length)] as Tree;
  const keys = Object.keys(node);
  const key = keys[random(Math.max(1, keys.length))];
  const holder = node as Record<string, unknown>;
  const value: unknown = [
    null,
    random(100) - 20,
    random(2) === 0,
    WORDS[random(WORDS.length)],
    [],
    {},
    [WORDS[random(WORDS.length)]],
    0.5,
    [{}],
  ][random(9)];
  switch (key === undefined ? 2 : random(6)) {
    case 0:
      if (Array.isArray(node)) node.splice(Number(key), 1);
      else delete holder[key as string];
      return `without ${key}`;
    case 1: {
      const old = holder[key as string];
      if (Array.isArray(node)) node.push(structuredClone(old));
      else {
        delete holder[key as string];
        holder[KEYS[random(KEYS.length)] as string] = old;
      }
      return `${key} elsewhere`;
    }
    case 2: {
      const added = KEYS[random(KEYS.length)] as string;
      if (Array.isArray(node)) node.push(value);
      else holder[added] = value;
      return `with ${added} ${JSON.stringify(value)}`;
    }
    case 3: {
      const old = holder[key as string];
      holder[key as string] = typeof old === 'string' ? `${old}x` : typeof old === 'number' ? -old - 1 : String(old);
      return `${key} changed`;
    }
    default:
      holder[key as string] = value;
      return `${key} = ${JSON.stringify(value)}`;
  }
}

const official = officialValidators();

describe.skipIf(official === null)('random changes to valid contracts', () => {
  it(`are refused where the official schema refuses them (${MUTATIONS}, seed ${SEED})`, { timeout: 120_000 }, () => {
    const random = randomOf(SEED);
    const looser: string[] = [];
    const unexplained: string[] = [];
    let refused = 0;
    for (let i = 0; i < MUTATIONS; i++) {
      const entry = VALID[i % VALID.length] as (typeof VALID)[number];
      const document = parse(entry.text) as Tree;
      const what = Array.from({ length: 1 + random(2) }, () => mutate(document, random)).join(', ');
      const apiVersion = String((document as Record<string, unknown>)['apiVersion']);
      const right = official?.[apiVersion === 'v3.2.0' ? '3.2' : '3.1'](document) === true;
      const { contract, findings } = lintContract(JSON.stringify(document, null, 1), 'm.odcs.yaml');
      const codes = new Set(findings.filter(({ level }) => level === 'error').map(({ code }) => code));
      expect(contract === null).toBe(codes.size > 0);
      if (!right) refused++;
      const shown = `${entry.name}: ${what}`;
      if (!right && contract !== null)
        looser.push(
          `${shown}: ${JSON.stringify(official?.[apiVersion === 'v3.2.0' ? '3.2' : '3.1'].errors?.slice(0, 2).map((e) => [e.instancePath, e.message, e.params]))}`,
        );
      if (right) for (const code of codes) if (!Object.hasOwn(STRICTER, code)) unexplained.push(`${shown}: ${code}`);
    }
    expect(looser).toEqual([]);
    expect(unexplained).toEqual([]);
    expect(refused).toBeGreaterThan(MUTATIONS / 4);
  });
});
