/** What a column's keys say against each other. */
import { compareDecimals, parseDecimal } from './decimal-text.ts';
import type { Report } from './lint-report.ts';
import type { Column, Rule } from './model.ts';
import { parsePgType } from './pg-type.ts';
import { forbidsNull } from './read-column.ts';
import { meansZero } from './rules/rule-meta.ts';
import { parseInstant } from './rules/temporal.ts';
import { ENFORCED_FORMATS } from './rules/value-formats.ts';
import { didYouMean, nearest } from './nearest.ts';
import { mapPgText } from './type-table.ts';

export function lintColumn(column: Column, report: Report): void {
  if (column.logicalType === null)
    report(column.path, 'LOGICAL_TYPE_MISSING', 'the column has no logicalType; its physicalType alone decides', {
      level: column.physicalType === null ? 'error' : 'info',
      hint:
        column.physicalType === null
          ? 'give a logicalType or a physicalType'
          : `logicalType: ${mapPgText(column.physicalType).logicalType}`,
    });
  lintTypes(column, report);
  lintBounds(column, report);
  lintFormat(column, report);
  lintInside(column, report);
  if (column.keyPosition > 0 && !column.required)
    report(column.path, 'KEY_NULLABLE', 'a key column should say required: true', { level: 'warning' });
  if (column.required && column.onUnrepresentable === 'null')
    report(column.path, 'CONTRADICTION', 'required, and onUnrepresentable: null: a NULL would break the contract', {
      hint: 'use quarantine or fail',
    });
  if (column.piiAction === 'null' && column.required)
    report(column.path, 'CONTRADICTION', 'required, and piiAction: null: every row would break the contract');
  if (column.piiAction !== null && column.piiAction !== 'hash' && column.keyPosition > 0)
    report(
      column.path,
      'CONTRADICTION',
      `a key column cannot be ${column.piiAction === 'drop' ? 'dropped' : `replaced (${column.piiAction})`}: rows would lose their identity`,
      { hint: 'use hash' },
    );
  if (
    column.allowedValues !== null &&
    column.default !== undefined &&
    !column.allowedValues.map(String).includes(String(column.default))
  )
    report(column.path, 'CONTRADICTION', 'the default is not among the allowed values');
  for (const nested of [column.items, column.mapKey, column.mapValue, ...column.properties])
    if (nested !== null) lintNested(nested, report);
  for (const [index, property] of column.properties.entries())
    if (column.properties.findIndex((other) => other.name === property.name) < index)
      report([...property.path, 'name'], 'DUPLICATE_COLUMN', `property '${property.name}' stands above already`);
}

/** Nested elements have no types of a database, and no key. */
function lintNested(column: Column, report: Report): void {
  for (const rule of column.nestedRules)
    if (rule.kind !== 'text' && !(meansZero(rule) && (forbidsNull(rule) || listsValues(rule))))
      report(
        rule.path,
        'RULE_NESTED',
        `rule ${rule.id} stands on an element inside a column, where it cannot be counted`,
        {
          hint: 'enforced there: invalidValues with validValues, nullValues; each mustBe: 0. Others: a CEL rule on the table',
        },
      );
  lintBounds(column, report);
  lintFormat(column, report);
  for (const nested of [column.items, column.mapKey, column.mapValue, ...column.properties])
    if (nested !== null) lintNested(nested, report);
}

/** hstore, xml, composites: PostgreSQL's text, which the gate does not take apart. A rule that is not carried out must not look as if it were. */
function lintInside(column: Column, report: Report): void {
  if (column.physicalType === null || !parsePgType(column.physicalType).known) return;
  const { wire, json } = mapPgText(column.physicalType);
  const inner = [column.items, column.mapKey, column.mapValue, ...column.properties].filter((part) => part !== null);
  if (wire !== 'text' || json || !inner.some(saysWhatPasses)) return;
  report(
    column.path,
    'INSIDE_NOT_ENFORCED',
    `what the contract asks of the inside of a ${column.physicalType} documents only: it is kept as text, and not tested`,
    {
      level: 'warning',
      hint: 'tested is the inside of json, jsonb and arrays; of others a CEL rule can test the text',
    },
  );
}

const KEPT_AS: ReadonlySet<string> = new Set(['format', 'timezone', 'defaultTimezone']);
function saysWhatPasses(column: Column): boolean {
  return (
    column.required ||
    column.allowedValues !== null ||
    column.nestedRules.length > 0 ||
    Object.keys(column.options).some((name) => !KEPT_AS.has(name)) ||
    [column.items, column.mapKey, column.mapValue, ...column.properties].some(
      (part) => part !== null && saysWhatPasses(part),
    )
  );
}

/** `invalidValues` as a closed list: part of the element's own checks. */
function listsValues(rule: Rule): boolean {
  return (
    rule.kind === 'library' && rule.metric === 'invalidValues' && rule.validValues !== null && rule.pattern === null
  );
}

/** `physicalType: bigint` with `logicalType: string`: one of the two is wrong. json columns may be described as anything. */
function lintTypes(column: Column, report: Report): void {
  const { physicalType, logicalType } = column;
  if (physicalType === null || logicalType === null || !parsePgType(physicalType).known) return;
  const mapping = mapPgText(physicalType);
  const same =
    mapping.logicalType === logicalType || (mapping.json && logicalType !== 'integer' && logicalType !== 'boolean');
  const text =
    mapping.wire === 'text' &&
    (logicalType === 'string' ||
      logicalType === 'object' ||
      logicalType === 'map' ||
      logicalType === 'time' ||
      logicalType === 'vector');
  const whole =
    mapping.wire === 'decimal' && logicalType === 'integer' && (parsePgType(physicalType).args[1] ?? 0) <= 0;
  if (!same && !text && !whole)
    report(
      [...column.path, 'logicalType'],
      'TYPE_CONTRADICTION',
      `logicalType ${logicalType} does not fit physicalType ${physicalType}`,
      { hint: `write ${mapping.logicalType}` },
    );
  const { format, timezone } = column.options;
  if (
    logicalType === 'integer' &&
    mapping.options.format !== undefined &&
    format === undefined &&
    mapping.options.format !== 'i32'
  )
    report(
      column.path,
      'FORMAT_DEFAULT',
      `the standard's default format is i32; ${physicalType} needs ${mapping.options.format}`,
      { level: 'info', hint: `logicalTypeOptions: {format: ${mapping.options.format}}` },
    );
  if (
    logicalType === 'timestamp' &&
    timezone !== undefined &&
    mapping.options.timezone !== undefined &&
    timezone !== mapping.options.timezone
  )
    report(
      [...column.path, 'logicalTypeOptions', 'timezone'],
      'TYPE_CONTRADICTION',
      `timezone: ${timezone} does not fit physicalType ${physicalType}`,
    );
}

const ORDERED: readonly (readonly [keyof Column['options'], keyof Column['options'], boolean])[] = [
  ['minimum', 'maximum', false],
  ['minimum', 'exclusiveMaximum', true],
  ['exclusiveMinimum', 'maximum', true],
  ['exclusiveMinimum', 'exclusiveMaximum', true],
  ['minLength', 'maxLength', false],
  ['minItems', 'maxItems', false],
  ['minProperties', 'maxProperties', false],
];

function lintBounds(column: Column, report: Report): void {
  for (const [low, high, strict] of ORDERED) {
    const sign = compareBounds(column.options[low], column.options[high]);
    if (sign === null || sign < 0 || (sign === 0 && !strict)) continue;
    report(
      [...column.path, 'logicalTypeOptions', high],
      'BOUNDS_CROSSED',
      `no value can be ${low} ${String(column.options[low])} and ${high} ${String(column.options[high])}`,
    );
  }
  const temporal = column.logicalType === 'date' || column.logicalType === 'timestamp';
  if (!temporal) return;
  for (const name of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const) {
    const text = column.options[name];
    if (text !== undefined && parseInstant(text) === null)
      report([...column.path, 'logicalTypeOptions', name], 'BOUND_UNUSABLE', `'${text}' is no ${column.logicalType}`, {
        hint: 'write 2024-01-31, or 2024-01-31T12:00:00Z',
      });
  }
}

function compareBounds(low: unknown, high: unknown): number | null {
  if (typeof low === 'number' && typeof high === 'number') return low - high;
  if (typeof low !== 'string' || typeof high !== 'string') return null;
  const [a, b] = [parseDecimal(low), parseDecimal(high)];
  if (a !== null && b !== null) return compareDecimals(a, b);
  const [from, to] = [parseInstant(low), parseInstant(high)];
  return from === null || to === null ? null : from < to ? -1 : from > to ? 1 : 0;
}

const STORAGE_FORMATS: ReadonlySet<string> = new Set(['binary', 'json', 'password', 'date', 'date-time', 'time']);

/** Formats of strings are free words in the standard; those that we do not test must not look as if we did. */
function lintFormat(column: Column, report: Report): void {
  const { format } = column.options;
  if (
    column.logicalType !== 'string' ||
    format === undefined ||
    ENFORCED_FORMATS.includes(format) ||
    STORAGE_FORMATS.has(format)
  )
    return;
  const path = [...column.path, 'logicalTypeOptions', 'format'];
  if (nearest(format, ENFORCED_FORMATS) !== null)
    report(path, 'FORMAT_UNKNOWN', `no format '${format}'`, { hint: didYouMean(format, ENFORCED_FORMATS) });
  else
    report(path, 'FORMAT_NOT_ENFORCED', `format '${format}' documents only: it is not tested`, {
      level: 'warning',
      hint: `tested are ${ENFORCED_FORMATS.join(', ')}`,
    });
}
