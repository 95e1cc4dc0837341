/**
 * CEL's view of our exact types: Decimal (numeric) and Timestamp (microseconds; date and both timestamps). Neither passes
 * through a double or a Date. `timestamp("…")` in a rule makes ours, not the library's millisecond one (see cel.ts).
 */
import { Environment } from '@marcbachmann/cel-js';

import { compareDecimals, formatDecimal, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';
import { compilePattern } from './linear-pattern.ts';
import type { PatternTest } from './linear-pattern.ts';
import { parseInstant } from './temporal.ts';

export class CelDecimal implements Decimal {
  readonly unscaled: bigint;
  readonly scale: number;
  constructor(value: Decimal) {
    this.unscaled = value.unscaled;
    this.scale = value.scale;
  }
}

export class CelTimestamp {
  readonly micros: bigint;
  constructor(micros: bigint) {
    this.micros = micros;
  }
}

/** The environment's type name of a row; its class is made per rule set, with one getter a column. */
export const ROW_TYPE = 'Row';
export type RowClass = new () => object;

/** Same length as `timestamp(`, so that positions in the rule's text stay true when it is put in its place. */
export const TIMESTAMP_FUNCTION = '__instant';

const LIMITS = { maxAstNodes: 1000, maxDepth: 64, maxListElements: 500, maxMapEntries: 100, maxCallArguments: 8 };

export interface CelFields {
  readonly [column: string]: string;
}

/** `patterns` are the literals of rmatch, compiled beforehand. */
export function createEnvironment(
  row: RowClass,
  fields: CelFields,
  patterns: ReadonlyMap<string, PatternTest>,
): Environment {
  const env = new Environment({ unlistedVariablesAreDyn: false, limits: LIMITS });
  env.registerType('Decimal', { ctor: CelDecimal, fields: {} });
  env.registerType('Timestamp', { ctor: CelTimestamp, fields: {} });
  env.registerType(ROW_TYPE, { ctor: row, fields });
  env.registerVariable('row', ROW_TYPE);
  registerDecimals(env);
  registerTimestamps(env);
  const match = (text: string, pattern: string): boolean => (patterns.get(pattern) ?? compilePattern(pattern))(text);
  env.registerFunction('rmatch(string, string): bool', match);
  env.registerFunction('string.rmatch(string): bool', match);
  return env;
}

const COMPARISONS: readonly [string, (sign: number) => boolean][] = [
  ['<', (sign) => sign < 0],
  ['<=', (sign) => sign <= 0],
  ['>', (sign) => sign > 0],
  ['>=', (sign) => sign >= 0],
];

type Numeric = CelDecimal | bigint | number;

function registerDecimals(env: Environment): void {
  const pairs = [
    ['Decimal', 'Decimal'],
    ['Decimal', 'int'],
    ['int', 'Decimal'],
    ['Decimal', 'double'],
    ['double', 'Decimal'],
  ];
  for (const [left, right] of pairs) {
    for (const [operator, holds] of COMPARISONS)
      env.registerOperator(`${left} ${operator} ${right}`, (a: Numeric, b: Numeric) =>
        holds(compareDecimals(exact(a), exact(b))),
      );
    if (left === 'Decimal')
      env.registerOperator(
        `${left} == ${right}`,
        (a: Numeric, b: Numeric) => compareDecimals(exact(a), exact(b)) === 0,
      );
    if (left !== 'double' && right !== 'double') registerArithmetic(env, left ?? '', right ?? '');
  }
  env.registerOperator('-Decimal', ({ unscaled, scale }: CelDecimal) => new CelDecimal({ unscaled: -unscaled, scale }));
  env.registerFunction('decimal(string): Decimal', (text: string) => decimalOf(text));
  env.registerFunction('decimal(int): Decimal', (value: bigint) => new CelDecimal({ unscaled: value, scale: 0 }));
  env.registerFunction('string(Decimal): string', (value: CelDecimal) => formatDecimal(value));
  env.registerFunction('double(Decimal): double', (value: CelDecimal) => Number(formatDecimal(value)));
}

/** Sums and products are exact. There is no division: 1/3 has no decimal. */
function registerArithmetic(env: Environment, left: string, right: string): void {
  env.registerOperator(`${left} + ${right}: Decimal`, (a: Numeric, b: Numeric) => sum(exact(a), exact(b), 1n));
  env.registerOperator(`${left} - ${right}: Decimal`, (a: Numeric, b: Numeric) => sum(exact(a), exact(b), -1n));
  env.registerOperator(`${left} * ${right}: Decimal`, (a: Numeric, b: Numeric) => {
    const [x, y] = [exact(a), exact(b)];
    return new CelDecimal({ unscaled: x.unscaled * y.unscaled, scale: x.scale + y.scale });
  });
}

function sum(a: Decimal, b: Decimal, sign: bigint): CelDecimal {
  const scale = Math.max(a.scale, b.scale);
  const left = a.unscaled * 10n ** BigInt(scale - a.scale);
  const right = b.unscaled * 10n ** BigInt(scale - b.scale);
  return new CelDecimal({ unscaled: left + sign * right, scale });
}

/** A double stands for its shortest text: 10.5 in a rule is exactly 10.5. */
function exact(value: Numeric): Decimal {
  if (typeof value === 'bigint') return { unscaled: value, scale: 0 };
  return typeof value === 'number' ? decimalOf(`${value}`) : value;
}

export function decimalOf(text: string): CelDecimal {
  const value = parseDecimal(text);
  if (value === null) throw new RangeError('not a decimal number');
  return new CelDecimal(value);
}

function registerTimestamps(env: Environment): void {
  for (const [operator, holds] of COMPARISONS)
    env.registerOperator(`Timestamp ${operator} Timestamp`, (a: CelTimestamp, b: CelTimestamp) =>
      holds(a.micros < b.micros ? -1 : a.micros > b.micros ? 1 : 0),
    );
  env.registerOperator('Timestamp == Timestamp', (a: CelTimestamp, b: CelTimestamp) => a.micros === b.micros);
  const duration = 'google.protobuf.Duration';
  env.registerOperator(
    `Timestamp + ${duration}: Timestamp`,
    (a: CelTimestamp, b: CelDuration) => new CelTimestamp(a.micros + durationMicros(b)),
  );
  env.registerOperator(
    `Timestamp - ${duration}: Timestamp`,
    (a: CelTimestamp, b: CelDuration) => new CelTimestamp(a.micros - durationMicros(b)),
  );
  env.registerOperator(`Timestamp - Timestamp: ${duration}`, (a: CelTimestamp, b: CelTimestamp) =>
    durationBetween(b.micros, a.micros),
  );
  env.registerFunction(
    `microsBetween(Timestamp, Timestamp): int`,
    (a: CelTimestamp, b: CelTimestamp) => b.micros - a.micros,
  );
  for (const name of [TIMESTAMP_FUNCTION, 'date']) env.registerFunction(`${name}(string): Timestamp`, instantOf);
}

interface CelDuration {
  readonly seconds: bigint;
  readonly nanos: number;
}

function durationMicros(value: CelDuration): bigint {
  return value.seconds * 1_000_000n + BigInt(Math.trunc(value.nanos / 1000));
}

/** As the library reads it. Throws when the text is no duration. */
export function durationOf(text: string): CelDuration {
  return plain.evaluate(`duration(${JSON.stringify(text)})`) as CelDuration;
}
const plain = new Environment();
/** The library's own class, which it does not export. */
const Duration = durationOf('0s').constructor as new (seconds: bigint, nanos: number) => CelDuration;

function durationBetween(from: bigint, to: bigint): CelDuration {
  const micros = to - from;
  // Nanoseconds are never negative: half a second before is -1 s and 500 ms.
  const seconds = micros / 1_000_000n - (micros % 1_000_000n < 0n ? 1n : 0n);
  return new Duration(seconds, Number(micros - seconds * 1_000_000n) * 1000);
}

export function instantOf(text: string): CelTimestamp {
  const micros = parseInstant(text);
  if (micros === null) throw new RangeError('not a timestamp');
  return new CelTimestamp(micros);
}
