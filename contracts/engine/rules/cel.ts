/**
 * Row rules in CEL. One file knows the library. The environment is typed by the contract's columns, so that a misspelt column
 * or a comparison with the wrong type fails when the contract is compiled; `matches` is refused (it runs the platform's
 * backtracking engine: one row blocked for 19 s, tried) and `rmatch` offered.
 */
import type { ASTNode } from '@marcbachmann/cel-js';

import { didYouMean } from '../nearest.ts';
import type { Cell, GateRow } from '../gate.ts';
import type { TypeMapping } from '../type-table.ts';
import { CelTimestamp, createEnvironment, decimalOf, durationOf, instantOf, TIMESTAMP_FUNCTION } from './cel-values.ts';
import { compilePattern } from './linear-pattern.ts';
import type { PatternTest } from './linear-pattern.ts';
import { temporalMicros } from './temporal.ts';
import type { TemporalKind } from './temporal.ts';

export interface RuleColumn {
  readonly name: string;
  readonly mapping: TypeMapping;
  readonly nullable: boolean;
}

export interface RuleProblem {
  readonly message: string;
  /** Offset into the rule's text, from 0. */
  readonly offset: number;
  readonly hint: string | null;
}

/** `pass`, `fail`, or `error`: the evaluation itself failed (a null where a value was needed, a division by zero). */
export type RuleOutcome = 'pass' | 'fail' | 'error';

export interface RowRule {
  /** Columns that the rule reads; the caller skips it when one is absent. */
  readonly columns: readonly string[];
  evaluate(row: GateRow): RuleOutcome;
}

export type CompiledRule =
  | { readonly rule: RowRule; readonly problems: null }
  | { readonly rule: null; readonly problems: readonly RuleProblem[] };

const RULE_LENGTH_MAX = 4000;

export function compileRowRule(source: string, columns: readonly RuleColumn[]): CompiledRule {
  if (source.length > RULE_LENGTH_MAX)
    return refused({ message: `the rule is longer than ${RULE_LENGTH_MAX} characters`, offset: 0, hint: null });
  const byName = new Map(columns.map((column) => [column.name, column]));
  const view = createRowView(columns, new Set());
  const probe = createEnvironment(
    view.type,
    fieldTypes(columns, () => false),
    new Map(),
  );
  const parsed = attempt(() => probe.parse(source).ast);
  if ('problem' in parsed) return refused(parsed.problem);
  const walked = walkRule(parsed.value, byName);
  if (walked.problems.length > 0) return refused(...walked.problems);
  const text = replaceCalls(source, walked.timestamps);
  // First with every column as a value and null tests taken as true, so that a nullable column's types are checked, too.
  const strict = attempt(() => probe.parse(withoutNullTests(text, walked.nullTests)).check());
  const strictProblem = 'problem' in strict ? strict.problem : checkProblem(strict.value, columns);
  if (strictProblem !== null) return refused(strictProblem);
  return finish(text, columns, walked);
}

function finish(text: string, columns: readonly RuleColumn[], walked: Walked): CompiledRule {
  const used = columns.filter((column) => walked.columns.has(column.name));
  const view = createRowView(used, walked.onlyNullTested);
  const dynamic = (column: RuleColumn): boolean => column.nullable || walked.nullTested.has(column.name);
  const env = createEnvironment(view.type, fieldTypes(used, dynamic), walked.patterns);
  const program = env.parse(text);
  const checked = program.check();
  const problem = checkProblem(checked, columns);
  if (problem !== null) return refused(problem);
  const { holder } = view;
  const context = { row: holder };
  const evaluate = (row: GateRow): RuleOutcome => {
    holder[CELLS] = row;
    try {
      const result: unknown = program(context);
      return result === true ? 'pass' : result === false ? 'fail' : 'error';
    } catch {
      // The library throws for what the row's values make impossible; the value itself must not travel in a message.
      return 'error';
    }
  };
  return { rule: { columns: used.map((column) => column.name), evaluate }, problems: null };
}

function refused(...problems: readonly RuleProblem[]): CompiledRule {
  return { rule: null, problems };
}

interface LibraryError {
  readonly summary?: string;
  readonly message: string;
  readonly range?: { readonly start: number };
}

function attempt<T>(action: () => T): { readonly value: T } | { readonly problem: RuleProblem } {
  try {
    return { value: action() };
  } catch (error) {
    return { problem: libraryProblem(error as LibraryError) };
  }
}

function libraryProblem(error: LibraryError): RuleProblem {
  const message = (error.summary ?? error.message).split('\n', 1)[0] ?? 'not a CEL expression';
  return { message: message.replaceAll(TIMESTAMP_FUNCTION, 'timestamp'), offset: error.range?.start ?? 0, hint: null };
}

function checkProblem(
  result: { readonly valid: boolean; readonly type?: string; readonly error?: unknown },
  columns: readonly RuleColumn[],
): RuleProblem | null {
  if (!result.valid) {
    const problem = libraryProblem(result.error as LibraryError);
    const missing = /No such key: (\S+)/.exec(problem.message)?.[1];
    return missing === undefined
      ? problem
      : {
          ...problem,
          hint: didYouMean(
            missing,
            columns.map((column) => column.name),
          ),
        };
  }
  if (result.type === 'bool' || result.type === 'dyn') return null;
  return { message: `the rule gives ${result.type ?? 'no value'}; it must give true or false`, offset: 0, hint: null };
}

// ---- what the rule reads ----

interface Walked {
  readonly columns: Set<string>;
  readonly nullTested: Set<string>;
  /** Read in null tests only: their values need no conversion. */
  readonly onlyNullTested: Set<string>;
  /** Ranges of `row.x == null` and its kin. */
  readonly nullTests: { readonly start: number; readonly end: number }[];
  /** Starts of `timestamp(`. */
  readonly timestamps: number[];
  readonly patterns: Map<string, PatternTest>;
  readonly problems: RuleProblem[];
}

const MACROS: ReadonlySet<string> = new Set(['all', 'exists', 'exists_one', 'map', 'filter']);

function walkRule(ast: ASTNode, known: ReadonlyMap<string, RuleColumn>): Walked {
  const walked: Walked = {
    columns: new Set(),
    nullTested: new Set(),
    onlyNullTested: new Set(),
    nullTests: [],
    timestamps: [],
    patterns: new Map(),
    problems: [],
  };
  const valued = new Set<string>();
  walkNode(ast, 0, walked, valued, known);
  for (const column of walked.nullTested) if (!valued.has(column)) walked.onlyNullTested.add(column);
  return walked;
}

function walkNode(
  node: ASTNode,
  comprehensions: number,
  walked: Walked,
  valued: Set<string>,
  known: ReadonlyMap<string, RuleColumn>,
): void {
  const problem = (message: string, hint: string | null = null): void => {
    walked.problems.push({ message, offset: node.range.start, hint });
  };
  const column = rowColumn(node);
  if (column !== null) {
    valued.add(column);
    walked.columns.add(column);
    // The library tells a row from other values by this very name.
    if (column === 'constructor') return problem('a column named constructor cannot be used in a rule');
    if (!known.has(column)) problem(`the table has no column '${column}'`, didYouMean(column, [...known.keys()]));
    return;
  }
  if (node.op === 'id' && node.args === 'row') return problem('row can only be used with a column: row.name');
  if (node.op === 'id' && node.args === 'optional')
    return problem('optional values are not built in', 'test for null: row.name != null');
  if (node.op === '==' || node.op === '!=') {
    const [left, right] = node.args;
    const tested = isNull(right) ? rowColumn(left) : isNull(left) ? rowColumn(right) : null;
    if (tested !== null) {
      if (!known.has(tested))
        return problem(`the table has no column '${tested}'`, didYouMean(tested, [...known.keys()]));
      walked.columns.add(tested);
      walked.nullTested.add(tested);
      walked.nullTests.push({ start: node.range.start, end: node.range.end });
      return;
    }
  }
  if (node.op === 'in' && neverIn(node.args, known))
    problem('a number is never in a list of decimals', 'compare alike: decimal("1.5") in row.prices');
  let depth = comprehensions;
  if (node.op === 'call' || node.op === 'rcall') {
    const name = node.args[0];
    checkCall(node, name, walked, problem);
    if (node.op === 'rcall' && MACROS.has(name)) depth++;
    if (depth > 1)
      return problem('one list test may not stand inside another: its cost would grow with the square of the list');
  }
  for (const part of childNodes(node.args)) walkNode(part, depth, walked, valued, known);
}

function checkCall(
  node: ASTNode,
  name: string,
  walked: Walked,
  problem: (message: string, hint?: string) => void,
): void {
  if (name === 'matches')
    return problem('matches runs a backtracking engine and is not allowed', "use rmatch: row.name.rmatch('^a')");
  if (name === 'has') return problem('has() is true for every column of a row', 'use row.name != null');
  if (name === 'timestamp' && node.op === 'call') walked.timestamps.push(node.range.start);
  const literal = node.op === 'call' && node.args[1].length === 1 ? node.args[1][0] : undefined;
  if (literal?.op === 'value' && typeof literal.args === 'string' && !isLiteralOf(name, literal.args))
    problem(`${name}("${literal.args}") has no value: every row would break the rule`);
  if (name !== 'rmatch') return;
  const list = node.op === 'rcall' ? node.args[2] : node.op === 'call' ? node.args[1] : [];
  const last = list.at(-1);
  if (last?.op !== 'value' || typeof last.args !== 'string')
    return problem("rmatch's pattern must be a literal, so that it can be checked once");
  try {
    walked.patterns.set(last.args, compilePattern(last.args));
  } catch (error) {
    problem(error instanceof Error ? error.message : 'the pattern was refused');
  }
}

/** What a literal in a call of this name must be. */
function isLiteralOf(name: string, text: string): boolean {
  const make = LITERALS[name];
  return make === undefined || !('problem' in attempt(() => make(text)));
}
const LITERALS: Readonly<Record<string, (text: string) => unknown>> = {
  timestamp: instantOf,
  date: instantOf,
  decimal: decimalOf,
  duration: durationOf,
};

/** The items are Decimals, and the library takes values of two types for different ones. */
function neverIn([left, right]: readonly ASTNode[], known: ReadonlyMap<string, RuleColumn>): boolean {
  const wireOf = (node: ASTNode | undefined): TypeMapping | null => {
    const name = node === undefined ? null : rowColumn(node);
    return (name === null ? undefined : known.get(name))?.mapping ?? null;
  };
  if (wireOf(right)?.element?.wire !== 'decimal') return false;
  const value = left?.op === '-_' ? left.args : left;
  if (value?.op === 'value') return typeof value.args === 'number' || typeof value.args === 'bigint';
  const mapping = wireOf(left);
  return mapping !== null && ['int', 'double'].includes(celType(mapping));
}

/** `row.name` and `row["name"]`. */
function rowColumn(node: ASTNode): string | null {
  if (node.op !== '.' && node.op !== '[]') return null;
  const [left, right] = node.args;
  if (left.op !== 'id' || left.args !== 'row') return null;
  if (typeof right === 'string') return right;
  return right.op === 'value' && typeof right.args === 'string' ? right.args : null;
}

function isNull(node: ASTNode): boolean {
  return node.op === 'value' && node.args === null;
}

function childNodes(args: unknown): ASTNode[] {
  if (Array.isArray(args)) return args.flatMap(childNodes);
  return typeof args === 'object' && args !== null && 'op' in args ? [args as ASTNode] : [];
}

function replaceCalls(source: string, starts: readonly number[]): string {
  let text = source;
  for (const start of starts)
    text = text.slice(0, start) + TIMESTAMP_FUNCTION + text.slice(start + TIMESTAMP_FUNCTION.length);
  return text;
}

/** `row.paid_at != null` becomes `true` and blanks of the same length: positions stay true. */
function withoutNullTests(source: string, ranges: readonly { readonly start: number; readonly end: number }[]): string {
  let text = source;
  for (const { start, end } of ranges) text = text.slice(0, start) + 'true'.padEnd(end - start) + text.slice(end);
  return text;
}

// ---- rows as CEL sees them ----

/** No column can have this name. */
const CELLS = Symbol('cells');
interface RowHolder {
  [CELLS]: GateRow;
}
interface RowView {
  readonly type: new () => object;
  readonly holder: RowHolder;
}

/** One class a rule with a getter a column: a value is converted only when the rule reaches it. */
function createRowView(columns: readonly RuleColumn[], onlyNullTested: ReadonlySet<string>): RowView {
  class Row implements RowHolder {
    [CELLS]: GateRow = {};
  }
  for (const column of columns) {
    const convert = onlyNullTested.has(column.name) ? presence : converter(column.mapping);
    const { name } = column;
    Object.defineProperty(Row.prototype, name, {
      get(this: RowHolder) {
        const cell = this[CELLS][name];
        return cell === null || cell === undefined ? null : convert(cell);
      },
    });
  }
  return { type: Row, holder: new Row() };
}

const presence = (): boolean => true;

function converter(mapping: TypeMapping): (cell: NonNullable<Cell>) => unknown {
  switch (mapping.wire) {
    case 'int16':
    case 'int32':
    case 'int64':
    case 'uint32':
      return (cell) => (typeof cell === 'number' ? BigInt(cell) : cell);
    case 'float32':
    case 'float64':
      // NaN and the infinities travel as text, and compare as IEEE 754 says.
      return (cell) => (typeof cell === 'string' ? Number(cell) : cell);
    case 'decimal':
      return (cell) => decimalOf(`${cell as string | number}`);
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return timestampConverter(mapping.wire);
    case 'base64':
      return (cell) => (typeof cell === 'string' ? new Uint8Array(Buffer.from(cell, 'base64')) : cell);
    case 'array': {
      const inner = mapping.element === null ? (cell: NonNullable<Cell>): unknown => cell : converter(mapping.element);
      return (cell) => (Array.isArray(cell) ? cell.map((item: Cell) => (item === null ? null : inner(item))) : cell);
    }
    default:
      return (cell) => cell;
  }
}

function timestampConverter(kind: TemporalKind): (cell: NonNullable<Cell>) => unknown {
  return (cell) => {
    const micros = typeof cell === 'string' ? temporalMicros(cell, kind) : null;
    if (micros === null) throw new RangeError('not a timestamp');
    return new CelTimestamp(micros);
  };
}

function fieldTypes(columns: readonly RuleColumn[], dynamic: (column: RuleColumn) => boolean): Record<string, string> {
  return Object.fromEntries(columns.map((column) => [column.name, dynamic(column) ? 'dyn' : celType(column.mapping)]));
}

function celType(mapping: TypeMapping): string {
  switch (mapping.wire) {
    case 'boolean':
      return 'bool';
    case 'int16':
    case 'int32':
    case 'int64':
    case 'uint32':
      return 'int';
    case 'float32':
    case 'float64':
      return 'double';
    case 'decimal':
      return 'Decimal';
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return 'Timestamp';
    case 'base64':
      return 'bytes';
    case 'array':
      // Items may be null, so their type is open.
      return 'list<dyn>';
    default:
      return 'string';
  }
}
