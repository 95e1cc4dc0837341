/** A column's options as SQL conditions; each is true or false for a value, NULL is the caller's matter. */
import type { Column } from '../model.ts';
import type { TypeMapping } from '../type-table.ts';
import type { ScalarValue } from '../yaml-tree.ts';

export type ConditionDialect = 'spark' | 'postgres';

export interface Conditions {
  readonly list: readonly { readonly kind: string; readonly expression: string }[];
  /** What the dialect cannot say. */
  readonly lost: readonly string[];
}

const COMPARISONS = [
  ['minimum', '>='],
  ['maximum', '<='],
  ['exclusiveMinimum', '>'],
  ['exclusiveMaximum', '<'],
] as const;

export function columnConditions(
  column: Column,
  mapping: TypeMapping,
  name: string,
  dialect: ConditionDialect,
): Conditions {
  const list: { kind: string; expression: string }[] = [];
  const lost: string[] = [];
  const add = (kind: string, expression: string): void => {
    list.push({ kind, expression });
  };
  const { options } = column;
  const temporal = mapping.wire === 'date' || mapping.wire === 'timestamp' || mapping.wire === 'timestamptz';
  const textual = mapping.wire === 'text';
  for (const [option, sign] of COMPARISONS) {
    const bound = options[option];
    if (bound === undefined) continue;
    const inText = dialect === 'spark' && mapping.delta === 'string' && mapping.wire !== 'text';
    if (inText) lost.push(`${option} on values that are kept as text`);
    else
      add(
        option,
        `${name} ${sign} ${temporal ? `${mapping.wire === 'date' ? 'DATE' : 'TIMESTAMP'} ${literal(bound)}` : textual ? literal(bound) : bound}`,
      );
  }
  if (options.multipleOf !== undefined) {
    if (mapping.delta === 'string' && dialect === 'spark') lost.push('multipleOf on values that are kept as text');
    else add('multiple_of', `${name} % ${options.multipleOf} = 0`);
  }
  const length = mapping.wire === 'base64' ? `octet_length(${name})` : `char_length(${name})`;
  if (options.minLength !== undefined) add('min_length', `${length} >= ${options.minLength}`);
  if (options.maxLength !== undefined) add('max_length', `${length} <= ${options.maxLength}`);
  if (options.pattern !== undefined)
    add(
      'pattern',
      dialect === 'spark' ? `${name} RLIKE ${literal(options.pattern, true)}` : `${name} ~ ${literal(options.pattern)}`,
    );
  if (column.allowedValues !== null && !column.enumOpen)
    add('values', `${name} IN (${column.allowedValues.map((value) => valueText(value, mapping)).join(', ')})`);
  if (options.format !== undefined && textual && options.format !== 'uuid') lost.push(`format ${options.format}`);
  if (options.minItems !== undefined || options.maxItems !== undefined) {
    const size = dialect === 'spark' ? `size(${name})` : `cardinality(${name})`;
    if (mapping.wire !== 'array') lost.push('item counts of JSON text');
    else {
      if (options.minItems !== undefined) add('min_items', `${size} >= ${options.minItems}`);
      if (options.maxItems !== undefined) add('max_items', `${size} <= ${options.maxItems}`);
    }
  }
  return { list, lost };
}

function valueText(value: ScalarValue, mapping: TypeMapping): string {
  if (mapping.wire === 'text' || mapping.wire === 'base64' || typeof value === 'string') return literal(String(value));
  return String(value);
}

function literal(text: string, backslashes = false): string {
  const doubled = text.replaceAll("'", "''");
  return `'${backslashes ? text.replaceAll('\\', '\\\\').replaceAll("'", "\\'") : doubled}'`;
}
