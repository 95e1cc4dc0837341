/**
 * Contract → YAML text in the house style: block maps, short leaves on one line, keys in the order in which the standard
 * explains them. The same value always gives the same bytes.
 */
import { Document, isMap, isScalar, isSeq, Scalar, visit } from 'yaml';
import type { ScalarTag } from 'yaml';

import type { ScalarValue } from './yaml-tree.ts';

/** YAML values; a number that must keep its text (0.10, 2^60) is given as `exactNumber`. */
export type PlainValue =
  | ScalarValue
  | ExactNumber
  | readonly PlainValue[]
  | { readonly [key: string]: PlainValue | undefined };

export interface ExactNumber {
  readonly exactNumber: string;
}

export function exactNumber(text: string): ExactNumber {
  return { exactNumber: text };
}

const EXACT_TAG: ScalarTag = {
  tag: 'tag:yaml.org,2002:float',
  default: true,
  identify: isExactNumber,
  createNode: (_schema, value) => new Scalar(value),
  resolve: (text) => Number(text),
  stringify: ({ value }) => (isExactNumber(value) ? value.exactNumber : String(value)),
};

function isExactNumber(value: unknown): value is ExactNumber {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'exactNumber');
}

/** What YAML 1.1 readers (the standard's Python tools among them) would not read as text. */
const YAML_11_WORD =
  /^(?:y|n|yes|no|on|off|~|[-+]?0[0-7_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\d{4}-\d{1,2}-\d{1,2}.*)$/i;

/** Keys whose maps stand on one line: `logicalTypeOptions: {format: i64}`. */
const FLOW_KEYS: ReadonlySet<string> = new Set([
  'logicalTypeOptions',
  'arguments',
  'tags',
  'mustBeBetween',
  'mustNotBeBetween',
  'examples',
]);
/** Keys whose list entries each stand on one line. */
const FLOW_ITEMS: ReadonlySet<string> = new Set([
  'customProperties',
  'quality',
  'servers',
  'slaProperties',
  'relationships',
  'enum',
  'support',
  'members',
]);
const FLOW_WIDTH = 110;

export function writeYaml(value: { readonly [key: string]: PlainValue | undefined }): string {
  const document = new Document(clean(value), {
    aliasDuplicateObjects: false,
    version: '1.2',
    customTags: (tags) => [EXACT_TAG, ...tags],
  });
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === 'string' && YAML_11_WORD.test(node.value)) node.type = 'QUOTE_SINGLE';
    },
    Pair(_key, pair) {
      if (!isScalar(pair.key)) return;
      const key = String(pair.key.value);
      if (FLOW_KEYS.has(key) && (isMap(pair.value) || isSeq(pair.value))) pair.value.flow = true;
      if (FLOW_ITEMS.has(key) && isSeq(pair.value))
        for (const item of pair.value.items) if (isMap(item)) item.flow = fits(item);
      if (key === 'items' && isMap(pair.value)) pair.value.flow = fits(pair.value);
    },
  });
  return document.toString({
    lineWidth: 0,
    flowCollectionPadding: false,
    singleQuote: true,
    nullStr: 'null',
  });
}

function fits(node: { toJSON(): unknown }): boolean {
  return (
    JSON.stringify(node.toJSON(), (_key, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
      .length <
    FLOW_WIDTH * 1.4
  );
}

/** Drops undefined keys, and empty lists and maps, that say nothing. */
function clean(value: PlainValue | undefined): unknown {
  if (Array.isArray(value)) return value.map((item: PlainValue) => clean(item));
  if (typeof value !== 'object' || value === null || isExactNumber(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => {
      if (item === undefined) return [];
      const cleaned = clean(item);
      const empty = typeof cleaned === 'object' && cleaned !== null && Object.keys(cleaned).length === 0;
      return empty && key !== 'value' ? [] : [[key, cleaned]];
    }),
  );
}
