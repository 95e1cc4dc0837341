/**
 * CHECK constraints → rules. `total >= 0` and `status IN (…)` become column options, which the gate tests on every event;
 * anything else becomes an SQL rule. A CHECK that is NULL passes in PostgreSQL, and so do ours.
 */
import type { CatalogCheck, CatalogColumn } from './catalog.ts';
import { normaliseNumber } from './decimal-text.ts';

export interface CheckRules {
  /** By column: bounds and multipleOf as decimal text; lengths and item counts as digits. */
  readonly bounds: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** By column: the closed list. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  readonly tableRules: readonly { readonly name: string; readonly query: string }[];
}

const OPTION: Readonly<Record<string, string>> = {
  '>=': 'minimum',
  '<=': 'maximum',
  '>': 'exclusiveMinimum',
  '<': 'exclusiveMaximum',
};
const MIRRORED: Readonly<Record<string, string>> = { '>=': '<=', '<=': '>=', '>': '<', '<': '>' };
const NAME = String.raw`(?:"((?:[^"]|"")+)"|([a-z_][a-z0-9_$]*))`;
const CAST = String.raw`(?:::[a-z_ ]+(?:\([\d, ]+\))?)?`;
const NUMBER = String.raw`\(?'?(-?\d+(?:\.\d+)?)'?\)?${CAST}`;
const COLUMN_FIRST = new RegExp(`^\\(*${NAME}\\)?${CAST}\\s*(>=|<=|>|<)\\s*${NUMBER}\\)*$`, 'i');
const NUMBER_FIRST = new RegExp(`^\\(*${NUMBER}\\s*(>=|<=|>|<)\\s*\\(?${NAME}\\)?${CAST}\\)*$`, 'i');
/** `char_length("a") <= 3`, `cardinality(tags) >= 1`, with the casts that the catalog adds. */
const COUNTED = new RegExp(
  `^\\(*(char_length|character_length|length|octet_length|cardinality)\\(\\(*${NAME}\\)*${CAST}\\)*\\s*(>=|<=)\\s*(\\d+)\\)*$`,
  'i',
);
const MULTIPLE = new RegExp(`^\\(*${NAME}\\)?${CAST}\\s*%\\s*${NUMBER}\\)*\\s*=\\s*\\(?0\\)?${CAST}\\)*$`, 'i');
const IN_LIST = new RegExp(
  `^\\(*${NAME}\\)?${CAST}\\s*(?:=\\s*ANY\\s*\\(+\\s*ARRAY\\s*\\[|IN\\s*\\()(.*?)[\\])]+${CAST}(?:\\[\\])?\\)*$`,
  'is',
);

export function checkRules(checks: readonly CatalogCheck[], columns: readonly CatalogColumn[]): CheckRules {
  const bounds = new Map<string, Record<string, string>>();
  const values = new Map<string, readonly string[]>();
  const tableRules: { name: string; query: string }[] = [];
  const known = new Set(columns.map((column) => column.name));
  for (const check of checks) {
    const parts = conjuncts(check.expression);
    const simple = parts.map(
      (part) => boundOf(part, known) ?? countOf(part, known) ?? stepOf(part, known) ?? valuesOf(part, known),
    );
    if (simple.every((part) => part !== null)) {
      for (const part of simple) {
        if (part === null) continue;
        if ('list' in part) values.set(part.column, part.list);
        else bounds.set(part.column, { ...bounds.get(part.column), [part.option]: part.text });
      }
    } else
      tableRules.push({ name: check.name, query: `SELECT count(*) FROM {object} WHERE NOT (${check.expression})` });
  }
  return { bounds, values, tableRules };
}

interface BoundPart {
  readonly column: string;
  readonly option: string;
  readonly text: string;
}
interface ValuesPart {
  readonly column: string;
  readonly list: readonly string[];
}

function boundOf(part: string, known: ReadonlySet<string>): BoundPart | null {
  const forward = COLUMN_FIRST.exec(part);
  const backward = forward === null ? NUMBER_FIRST.exec(part) : null;
  const column = forward === null ? nameOf(backward?.[3], backward?.[4]) : nameOf(forward[1], forward[2]);
  const operator = forward === null ? MIRRORED[backward?.[2] ?? ''] : forward[3];
  const text = normaliseNumber(forward?.[4] ?? backward?.[1] ?? '');
  const option = operator === undefined ? undefined : OPTION[operator];
  return column === null || !known.has(column) || text === null || option === undefined
    ? null
    : { column, option, text };
}

function countOf(part: string, known: ReadonlySet<string>): BoundPart | null {
  const match = COUNTED.exec(part);
  const column = nameOf(match?.[2], match?.[3]);
  if (match === null || column === null || !known.has(column)) return null;
  const side = match[4] === '>=' ? 'min' : 'max';
  return { column, option: `${side}${/^card/i.test(match[1] ?? '') ? 'Items' : 'Length'}`, text: match[5] ?? '' };
}

function stepOf(part: string, known: ReadonlySet<string>): BoundPart | null {
  const match = MULTIPLE.exec(part);
  const column = nameOf(match?.[1], match?.[2]);
  const text = normaliseNumber(match?.[3] ?? '');
  return column === null || !known.has(column) || text === null ? null : { column, option: 'multipleOf', text };
}

function valuesOf(part: string, known: ReadonlySet<string>): ValuesPart | null {
  const match = IN_LIST.exec(part);
  const column = nameOf(match?.[1], match?.[2]);
  if (match === null || column === null || !known.has(column)) return null;
  const list: string[] = [];
  const literal = /\s*'((?:[^']|'')*)'(?:::[a-z_ ]+(?:\(\d+\))?)?\s*(?:,|$)/giy;
  const body = (match[3] ?? '').trim();
  while (literal.lastIndex < body.length) {
    const found = literal.exec(body);
    if (found === null) return null;
    list.push((found[1] ?? '').replaceAll("''", "'"));
  }
  return list.length === 0 ? null : { column, list };
}

function nameOf(quoted: string | undefined, bare: string | undefined): string | null {
  return quoted === undefined ? (bare?.toLowerCase() ?? null) : quoted.replaceAll('""', '"');
}

/** Splits `a AND b` at the top level: outside parentheses, quotes and BETWEEN. */
function conjuncts(expression: string): string[] {
  const body = unwrap(expression.trim());
  if (/\bbetween\b/i.test(body)) return [body];
  const parts: string[] = [];
  let depth = 0;
  let quote: string | null = null;
  let start = 0;
  for (let i = 0; i < body.length; i++) {
    const char = body[i] ?? '';
    if (quote !== null) {
      if (char === quote) quote = null;
    } else if (char === "'" || char === '"') quote = char;
    else if (char === '(' || char === '[') depth++;
    else if (char === ')' || char === ']') depth--;
    else if (depth === 0 && /^\sand\s/i.test(body.slice(i, i + 5))) {
      parts.push(body.slice(start, i));
      start = i + 5;
    }
  }
  parts.push(body.slice(start));
  return parts.map((part) => unwrap(part.trim()));
}

/** Takes off one pair of parentheses around the whole, as often as there is one. */
function unwrap(text: string): string {
  if (!text.startsWith('(') || !text.endsWith(')')) return text;
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "'") quoted = !quoted;
    if (quoted) continue;
    if (text[i] === '(') depth++;
    else if (text[i] === ')') depth--;
    if (depth === 0 && i < text.length - 1) return text;
  }
  return depth === 0 ? unwrap(text.slice(1, -1).trim()) : text;
}
