/** Checks inside json and jsonb columns: the nested `items` and `properties` of the contract against the parsed text. */
import { compareDecimals, isMultipleOf, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';
import { optionsWithRange } from '../integer-format.ts';
import type { Column } from '../model.ts';
import { compilePattern } from './linear-pattern.ts';
import { JsonDecimal, parseExactJson } from './exact-json.ts';
import type { JsonValue } from './exact-json.ts';
import { parseInstant } from './temporal.ts';
import { codePoints, formatTest } from './value-formats.ts';

/** Null = right; else what was expected and where, in the contract's own names: `[].qty: an integer`. */
export type DocumentTest = (value: JsonValue) => string | null;

/** A test on the column's text. Throws PatternError for a pattern that is refused. */
export function documentCheck(column: Column): (text: string) => string | null {
  const test = valueTest(column);
  return (text) => {
    const value = parseExactJson(text);
    return value === undefined ? 'JSON text' : test(value);
  };
}

function valueTest(column: Column): DocumentTest {
  const inner = typedTest(column);
  const allowed = column.allowedValues === null || column.enumOpen ? null : new Set(column.allowedValues.map(String));
  return (value) => {
    if (value === null) return column.required ? 'a value (null is not allowed)' : null;
    const problem = inner(value);
    if (problem !== null || allowed === null) return problem;
    return allowed.has(scalarText(value)) ? null : 'one of the allowed values';
  };
}

function typedTest(column: Column): DocumentTest {
  switch (column.logicalType) {
    case 'object':
      return objectTest(column);
    case 'array':
      return arrayTest(column);
    case 'map':
      return mapTest(column);
    case 'integer':
    case 'number':
      return numberTest(column);
    case 'boolean':
      return (value) => (typeof value === 'boolean' ? null : 'true or false');
    case 'string':
      return stringTest(column);
    case 'date':
    case 'timestamp':
      return instantTest(column);
    default:
      return () => null;
  }
}

function objectTest(column: Column): DocumentTest {
  const parts = column.properties.map((property) => ({
    name: property.name,
    required: property.required,
    test: valueTest(property),
  }));
  const { minProperties = 0, maxProperties = Infinity, requiredProperties = [] } = column.options;
  return (value) => {
    if (!(value instanceof Map)) return 'an object';
    if (value.size < minProperties || value.size > maxProperties) return 'another number of properties';
    for (const name of requiredProperties) if (!value.has(name)) return `a property ${name}`;
    for (const part of parts) {
      const found = value.get(part.name) as JsonValue | undefined;
      if (found === undefined) {
        if (part.required) return `a property ${part.name}`;
        continue;
      }
      const problem = part.test(found);
      if (problem !== null) return `${part.name}: ${problem}`;
    }
    return null;
  };
}

function arrayTest(column: Column): DocumentTest {
  const test = column.items === null ? null : valueTest(column.items);
  const { minItems = 0, maxItems = Infinity, uniqueItems = false } = column.options;
  return (value) => {
    if (!Array.isArray(value)) return 'an array';
    const items: readonly JsonValue[] = value;
    if (items.length < minItems || items.length > maxItems) return `from ${minItems} to ${maxItems} items`;
    if (uniqueItems && new Set(items.map(itemKey)).size !== items.length) return 'different items';
    for (const item of items) {
      const problem = test?.(item) ?? null;
      if (problem !== null) return `[]: ${problem}`;
    }
    return null;
  };
}

function mapTest(column: Column): DocumentTest {
  const keyTest = column.mapKey === null ? null : valueTest(column.mapKey);
  const test = column.mapValue === null ? null : valueTest(column.mapValue);
  // In JSON a key is text, whatever it means.
  const isText = column.mapKey?.logicalType === 'string' || column.mapKey?.logicalType === null;
  return (value) => {
    if (!(value instanceof Map)) return 'a map';
    for (const [key, item] of value) {
      const wrongKey = keyTest?.(isText ? key : (parseExactJson(key) ?? key)) ?? null;
      if (wrongKey !== null) return `{key}: ${wrongKey}`;
      const problem = test?.(item as JsonValue) ?? null;
      if (problem !== null) return `{}: ${problem}`;
    }
    return null;
  };
}

function instantTest({ logicalType, options }: Column): DocumentTest {
  const at = (bound: string | undefined): bigint | null => (bound === undefined ? null : parseInstant(bound));
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = options;
  const [min, max, above, below] = [minimum, maximum, exclusiveMinimum, exclusiveMaximum].map(at);
  return (value) => {
    const instant = typeof value === 'string' ? parseInstant(value) : null;
    if (instant === null) return `a ${logicalType}`;
    if (min != null && instant < min) return `at least ${minimum}`;
    if (max != null && instant > max) return `at most ${maximum}`;
    if (above != null && instant <= above) return `above ${exclusiveMinimum}`;
    return below != null && instant >= below ? `below ${exclusiveMaximum}` : null;
  };
}

function numberTest(column: Column): DocumentTest {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = optionsWithRange(column);
  const bound = (text: string | undefined): Decimal | null => (text === undefined ? null : parseDecimal(text));
  const [min, max, above, below, step] = [minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf].map(bound);
  const one: Decimal = { unscaled: 1n, scale: 0 };
  return (value) => {
    const text =
      value instanceof JsonDecimal
        ? value.text
        : typeof value === 'number' || typeof value === 'bigint'
          ? `${value}`
          : null;
    const number = text === null ? null : parseDecimal(text);
    if (number === null) return column.logicalType === 'integer' ? 'an integer' : 'a number';
    if (column.logicalType === 'integer' && !isMultipleOf(number, one)) return 'an integer';
    if (min != null && compareDecimals(number, min) < 0) return `at least ${minimum}`;
    if (max != null && compareDecimals(number, max) > 0) return `at most ${maximum}`;
    if (above != null && compareDecimals(number, above) <= 0) return `above ${exclusiveMinimum}`;
    if (below != null && compareDecimals(number, below) >= 0) return `below ${exclusiveMaximum}`;
    return step == null || isMultipleOf(number, step) ? null : `a multiple of ${multipleOf}`;
  };
}

function stringTest(column: Column): DocumentTest {
  const { minLength = 0, maxLength = Infinity, pattern, format } = column.options;
  const matches = pattern === undefined ? null : compilePattern(pattern);
  const formatted = format === undefined ? null : formatTest(format);
  return (value) => {
    if (typeof value !== 'string') return 'text';
    const length = codePoints(value);
    if (length < minLength || length > maxLength) return `text of ${minLength} to ${maxLength} characters`;
    if (matches?.(value) === false) return 'text that matches the pattern';
    return formatted?.(value) === false ? `a ${format}` : null;
  };
}

function scalarText(value: JsonValue): string {
  if (value instanceof JsonDecimal) return value.text;
  return typeof value === 'object' ? '' : `${value}`;
}

function itemKey(value: JsonValue): string {
  if (value instanceof JsonDecimal) return `number:${value.text}`;
  if (value instanceof Map)
    return `object:${[...value]
      .map(([key, item]) => `${key}=${itemKey(item as JsonValue)}`)
      .toSorted()
      .join(',')}`;
  if (Array.isArray(value)) return `array:${value.map((item: JsonValue) => itemKey(item)).join(',')}`;
  return `${typeof value}:${String(value as string)}`;
}
