/** Everything the gate checks on one column, as a list of tests with their rules; `gate-schema.ts` compiles them through ajv. */
import type { Cell } from '../gate.ts';
import { optionsWithRange } from '../integer-format.ts';
import type { Column, LibraryRule, OnUnrepresentable, Rule, TableContract } from '../model.ts';
import { mapPgText } from '../type-table.ts';
import type { TypeMapping } from '../type-table.ts';
import { BOUND_NAMES, boundTest, multipleTest } from './bound-check.ts';
import type { BoundName, CellTest } from './bound-check.ts';
import { cellCheck } from './cell-check.ts';
import type { CellFault } from './cell-check.ts';
import { documentCheck } from './document-check.ts';
import { compilePattern } from './linear-pattern.ts';
import { builtInAction, placeOf, ruleAction, STAGE_OPTION, STAGE_TYPE, unrepresentablePolicy } from './rule-meta.ts';
import type { ActionDefaults, RuleMeta } from './rule-meta.ts';
import { codePoints, formatTest } from './value-formats.ts';
import type { ScalarValue } from '../yaml-tree.ts';

export interface ColumnCheck {
  readonly meta: RuleMeta;
  /** True = right. Called with null only when `nulls`. */
  readonly test: CellTest;
  readonly nulls: boolean;
  /** Of the type check: which of its faults it was. */
  readonly fault?: (value: Cell) => CellFault;
  /** Of checks whose message depends on the value's place: expected text without row data. */
  readonly explain?: (value: Cell) => string;
}

export interface ColumnPlan {
  readonly column: Column;
  readonly mapping: TypeMapping;
  readonly checks: readonly ColumnCheck[];
  /** Of arrays. */
  readonly itemChecks: readonly ColumnCheck[];
  /** Ids of the contract's own rules here: skipped and counted when the column is absent. */
  readonly ruleIds: readonly string[];
  readonly unrepresentable: OnUnrepresentable;
}

export interface PlanProblem {
  readonly path: readonly (string | number)[];
  readonly code: 'PATTERN_REFUSED' | 'BOUND_UNUSABLE';
  readonly message: string;
}

export interface PlanContext {
  readonly table: TableContract;
  readonly defaults: ActionDefaults;
  readonly problems: PlanProblem[];
}

export function planColumn(written: Column, mapped: TypeMapping, context: PlanContext): ColumnPlan {
  const { table, defaults } = context;
  const replaced = written.piiAction !== null && written.piiStage === 'before-log';
  const column = replaced ? withoutClearText(written) : written;
  const mapping = replaced && column.piiAction !== 'null' ? mapPgText('text') : mapped;
  const action =
    column.keyPosition > 0 ? (column.onViolation ?? defaults.onKeyError) : builtInAction(column, table, defaults);
  const meta = (kind: string, code: RuleMeta['code'], message: string): RuleMeta => ({
    ruleId: `${kind}:${column.name}`,
    code,
    action:
      code === 'TYPE' || code === 'REQUIRED' || code === 'KEY_NULL' ? action : builtInAction(column, table, defaults),
    column: column.name,
    message,
    stage: code === 'TYPE' || code === 'REQUIRED' || code === 'KEY_NULL' ? STAGE_TYPE : STAGE_OPTION,
  });
  const checks: ColumnCheck[] = [];
  const rules = replaced ? [] : table.rules.filter((rule) => rule.column === column.name);
  if (column.keyPosition > 0)
    checks.push({ meta: meta('key', 'KEY_NULL', 'a key column must have a value'), test: notNull, nulls: true });
  else if (column.required)
    checks.push({ meta: meta('required', 'REQUIRED', 'a value is required'), test: notNull, nulls: true });
  const type = cellCheck(mapping);
  checks.push({
    meta: meta('type', 'TYPE', `expected ${type.expected}`),
    test: type.ok,
    nulls: false,
    fault: type.fault,
  });
  checks.push(...optionChecks(column, mapping, meta, context));
  const ruleIds = rules.filter((rule) => placeOf(rule) === 'row').map((rule) => rule.id);
  for (const rule of rules)
    if (rule.kind === 'library' && placeOf(rule) === 'row') checks.push(...ruleChecks(rule, column, mapping, context));
  if (rulesLackValues(rules) && column.allowedValues !== null && !column.enumOpen)
    checks.push({
      meta: meta('enum', 'ENUM', 'expected one of the allowed values'),
      test: oneOf(column.allowedValues, mapping),
      nulls: false,
    });
  return {
    column,
    mapping,
    checks,
    itemChecks: itemChecks(column, mapping, meta, context),
    ruleIds,
    unrepresentable: unrepresentablePolicy(column, table, defaults),
  };
}

/** A value that the reader replaced before the log: only its presence can still be checked, of a dropped or nulled one nothing. */
function withoutClearText(column: Column): Column {
  const kept = column.piiAction === 'hash' || column.piiAction === 'mask';
  return {
    ...column,
    options: {},
    allowedValues: null,
    items: null,
    logicalType: 'string',
    required: column.required && kept,
  };
}

/** True when the closed list stands in the column itself (3.2 `enum`), not in one of its rules. */
function rulesLackValues(rules: readonly Rule[]): boolean {
  return !rules.some(
    (rule) =>
      rule.kind === 'library' &&
      rule.metric === 'invalidValues' &&
      rule.validValues !== null &&
      placeOf(rule) === 'row',
  );
}

type MetaOf = (kind: string, code: RuleMeta['code'], message: string) => RuleMeta;

function optionChecks(column: Column, mapping: TypeMapping, meta: MetaOf, context: PlanContext): ColumnCheck[] {
  const options = optionsWithRange(column, mapping.physicalType);
  const checks: ColumnCheck[] = [];
  const add = (kind: string, code: RuleMeta['code'], message: string, test: CellTest): void => {
    checks.push({ meta: meta(kind, code, message), test, nulls: false });
  };
  for (const name of BOUND_NAMES) {
    const text = options[name];
    if (text === undefined) continue;
    const test = boundTest(mapping, name, text);
    if (test === null)
      problem(context, column, 'BOUND_UNUSABLE', `${name} ${text} is no bound for ${mapping.physicalType}`, name);
    else add(name, 'BOUND', `expected ${BOUND_WORDS[name]} ${text}`, test);
  }
  const step = options.multipleOf === undefined ? null : multipleTest(mapping, options.multipleOf);
  if (step !== null) add('multipleOf', 'BOUND', `expected a multiple of ${options.multipleOf}`, step);
  const { minLength, maxLength, minItems, maxItems } = options;
  if (minLength !== undefined && minLength > 0)
    add('minLength', 'LENGTH', `expected at least ${minLength} characters`, minLengthTest(minLength, mapping));
  if (maxLength !== undefined)
    add('maxLength', 'LENGTH', `expected at most ${maxLength} characters`, maxLengthTest(maxLength, mapping));
  const pattern = options.pattern === undefined ? null : patternTest(options.pattern, context, column);
  if (pattern !== null) add('pattern', 'PATTERN', 'expected text that matches the pattern', pattern);
  const format = options.format === undefined || mapping.wire !== 'text' ? null : formatTest(options.format);
  if (format !== null)
    add('format', 'FORMAT', `expected a ${options.format}`, (value) => typeof value !== 'string' || format(value));
  if (mapping.wire === 'array') {
    if (minItems !== undefined && minItems > 0)
      add(
        'minItems',
        'LENGTH',
        `expected at least ${minItems} items`,
        (value) => !Array.isArray(value) || value.length >= minItems,
      );
    if (maxItems !== undefined)
      add(
        'maxItems',
        'LENGTH',
        `expected at most ${maxItems} items`,
        (value) => !Array.isArray(value) || value.length <= maxItems,
      );
    if (options.uniqueItems === true) add('uniqueItems', 'RULE', 'expected different items', distinct);
  }
  if (mapping.json && isNested(column)) checks.push(documentColumn(column, meta, context));
  return checks;
}

const BOUND_WORDS: Readonly<Record<BoundName, string>> = {
  minimum: 'at least',
  maximum: 'at most',
  exclusiveMinimum: 'more than',
  exclusiveMaximum: 'less than',
};

function isNested(column: Column): boolean {
  return column.logicalType === 'object' || column.logicalType === 'array' || column.logicalType === 'map';
}

function documentColumn(column: Column, meta: MetaOf, context: PlanContext): ColumnCheck {
  const wrong = 'expected a JSON document of the shape that the contract gives';
  let check: ((text: string) => string | null) | null = null;
  try {
    check = documentCheck(column);
  } catch (error) {
    problem(context, column, 'PATTERN_REFUSED', error instanceof Error ? error.message : 'pattern refused', 'items');
  }
  return {
    meta: { ...meta('document', 'TYPE', wrong), stage: STAGE_OPTION },
    test: (value) => typeof value !== 'string' || check === null || check(value) === null,
    nulls: false,
    explain: (value) => (typeof value === 'string' ? `expected ${check?.(value) ?? 'a document'}` : wrong),
  };
}

function itemChecks(column: Column, mapping: TypeMapping, meta: MetaOf, context: PlanContext): ColumnCheck[] {
  const { element } = mapping;
  if (mapping.wire !== 'array' || element === null) return [];
  const type = cellCheck(element);
  const checks: ColumnCheck[] = [
    {
      meta: meta('type', 'TYPE', `expected items that are ${type.expected}`),
      test: type.ok,
      nulls: false,
      fault: type.fault,
    },
  ];
  const { items } = column;
  if (items === null) return checks;
  if (items.required)
    checks.push({ meta: meta('required', 'REQUIRED', 'expected no null among the items'), test: notNull, nulls: true });
  checks.push(
    ...optionChecks(items, element, (kind, code, message) => meta(`items.${kind}`, code, `items: ${message}`), context),
  );
  if (items.allowedValues !== null && !items.enumOpen)
    checks.push({
      meta: meta('items.enum', 'ENUM', 'expected items among the allowed values'),
      test: oneOf(items.allowedValues, element),
      nulls: false,
    });
  return checks;
}

/** invalidValues, missingValues and nullValues that must be zero. */
function ruleChecks(rule: LibraryRule, column: Column, mapping: TypeMapping, context: PlanContext): ColumnCheck[] {
  const action = ruleAction(rule, column, context.table, context.defaults);
  const check = (code: RuleMeta['code'], message: string, test: CellTest, nulls: boolean): ColumnCheck => ({
    meta: { ruleId: rule.id, code, action, column: column.name, message, stage: STAGE_OPTION },
    test,
    nulls,
  });
  switch (rule.metric) {
    case 'nullValues':
      return [check('REQUIRED', 'expected no null', notNull, true)];
    case 'missingValues': {
      const missing = rule.missingValues ?? [null];
      const listed = memberTest(
        missing.filter((value) => value !== null),
        mapping,
      );
      const nulls = missing.includes(null);
      return [
        check(
          'RULE',
          'expected a value that does not count as missing',
          (value) => (value === null ? !nulls : !listed(value)),
          true,
        ),
      ];
    }
    case 'invalidValues': {
      const checks: ColumnCheck[] = [];
      if (rule.validValues !== null && !column.enumOpen)
        checks.push(check('ENUM', 'expected one of the allowed values', oneOf(rule.validValues, mapping), false));
      const pattern = rule.pattern === null ? null : patternTest(rule.pattern, context, column);
      if (pattern !== null) checks.push(check('PATTERN', 'expected text that matches the pattern', pattern, false));
      return checks;
    }
    default:
      return [];
  }
}

function patternTest(pattern: string, context: PlanContext, column: Column): CellTest | null {
  try {
    const test = compilePattern(pattern);
    return (value) => typeof value !== 'string' || test(value);
  } catch (error) {
    problem(context, column, 'PATTERN_REFUSED', error instanceof Error ? error.message : 'pattern refused', 'pattern');
    return null;
  }
}

function problem(
  context: PlanContext,
  column: Column,
  code: PlanProblem['code'],
  message: string,
  option: string,
): void {
  context.problems.push({ path: [...column.path, 'logicalTypeOptions', option], code, message });
}

const notNull: CellTest = (value) => value !== null;

/** Lengths of bytea are bytes, of text code points. A string never has more code points than UTF-16 units. */
function maxLengthTest(max: number, mapping: TypeMapping): CellTest {
  if (mapping.wire === 'base64') return (value) => typeof value !== 'string' || base64Bytes(value) <= max;
  return (value) => typeof value !== 'string' || value.length <= max || codePoints(value) <= max;
}
function minLengthTest(min: number, mapping: TypeMapping): CellTest {
  if (mapping.wire === 'base64') return (value) => typeof value !== 'string' || base64Bytes(value) >= min;
  return (value) =>
    typeof value !== 'string' || (value.length >= min && (value.length >= 2 * min || codePoints(value) >= min));
}
function base64Bytes(text: string): number {
  return (text.length / 4) * 3 - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
}

function distinct(value: Cell): boolean {
  if (!Array.isArray(value)) return true;
  const items: readonly Cell[] = value;
  return (
    new Set(
      items.map((item) =>
        typeof item === 'object' && item !== null
          ? JSON.stringify(item, (_key, part: unknown) => (typeof part === 'bigint' ? `${part}` : part))
          : item,
      ),
    ).size === items.length
  );
}

function oneOf(values: readonly ScalarValue[], mapping: TypeMapping): CellTest {
  const member = memberTest(values, mapping);
  return (value) => typeof value === 'object' || member(value);
}

/** Numbers compare by value: 1.5 in the contract is '1.50' on the wire. */
function memberTest(values: readonly ScalarValue[], mapping: TypeMapping): CellTest {
  if (mapping.wire === 'decimal') {
    const tests = values.map(
      (value) => [boundTest(mapping, 'minimum', String(value)), boundTest(mapping, 'maximum', String(value))] as const,
    );
    return (value) => tests.some(([low, high]) => low?.(value) === true && high?.(value) === true);
  }
  if (mapping.wire === 'text' || mapping.wire === 'base64') {
    const texts = values.map(String);
    const [a, b, c] = texts;
    // Short lists are the rule, and comparing beats hashing there.
    if (texts.length <= 3)
      return (value) => value === a || (b !== undefined && value === b) || (c !== undefined && value === c);
    const set: ReadonlySet<Cell> = new Set(texts);
    return (value) => set.has(value);
  }
  const set: ReadonlySet<Cell> = new Set(
    values.map((value) => (typeof value === 'string' && mapping.logicalType === 'integer' ? Number(value) : value)),
  );
  return (value) => set.has(value);
}
