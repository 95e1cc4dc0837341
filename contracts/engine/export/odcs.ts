/**
 * The contract as ODCS 3.1.0, whatever version it was written in: 3.0's `rule` becomes `metric`, what only 3.2 has becomes the
 * nearest 3.1 form or is listed as lost. Everything else stays as written, comments excepted.
 */
import { isRecord } from '../custom-properties.ts';
import type { Contract } from '../model.ts';
import { RULES_30 } from '../standard/quality.ts';
import { writeYaml } from '../write.ts';
import type { PlainValue } from '../write.ts';
import { plainExact, readYaml } from '../yaml-tree.ts';
import type { ExportResult, LossyItem } from './export-result.ts';

type Plain = Record<string, unknown>;

/** Keys of 3.2 that 3.1 has no word for. */
const ONLY_32: ReadonlySet<string> = new Set(['context', 'synonyms', 'semanticType', 'vendor', 'encoding']);

export function exportOdcs(contract: Contract): ExportResult {
  const lossy: LossyItem[] = [];
  const { root } = readYaml(contract.source.text);
  const value = root === null ? {} : convert(plainExact(root), '', lossy);
  const document = isRecord(value) ? value : {};
  const text = writeYaml({
    ...(document as { readonly [key: string]: PlainValue }),
    apiVersion: 'v3.1.0',
    status: (document['status'] as PlainValue | undefined) ?? 'active',
  });
  return { text, lossy };
}

function convert(value: unknown, subject: string, lossy: LossyItem[]): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => convert(item, subject, lossy));
  if (!isRecord(value) || Object.hasOwn(value, 'exactNumber')) return value;
  const name = typeof value['name'] === 'string' ? value['name'] : null;
  const below = name === null ? subject : subject === '' ? name : `${subject}.${name}`;
  const out: Plain = {};
  for (const [key, item] of Object.entries(value)) {
    if (ONLY_32.has(key)) lossy.push({ subject: below, message: `${key} exists in ODCS 3.2 only` });
    else out[key] = key === 'value' && Object.hasOwn(value, 'property') ? item : convert(item, below, lossy);
  }
  return downgrade(out, below, lossy);
}

function downgrade(node: Plain, subject: string, lossy: LossyItem[]): Plain {
  const { enum: values, deprecated, map, ...rest } = node;
  let out: Plain = rest;
  if (Array.isArray(values)) out = withValues(out, values, subject);
  if (deprecated !== undefined)
    out = {
      ...out,
      customProperties: [...listOf(out['customProperties']), { property: 'deprecated', value: deprecated }],
    };
  if (out['logicalType'] === 'map' || out['logicalType'] === 'vector') {
    lossy.push({
      subject,
      message: `logicalType ${String(out['logicalType'])} exists in ODCS 3.2 only; written as ${out['logicalType'] === 'map' ? 'object' : 'array'}`,
    });
    const { logicalTypeOptions: _options, ...kept } = out;
    out = { ...kept, logicalType: out['logicalType'] === 'map' ? 'object' : 'array' };
  } else if (map !== undefined) out = { ...out, map };
  if (typeof out['rule'] === 'string' && Object.hasOwn(RULES_30, out['rule'])) out = withMetric(out);
  return out;
}

function withValues(node: Plain, values: readonly unknown[], subject: string): Plain {
  const list = values.map((entry) => (isRecord(entry) ? entry['value'] : entry));
  const id = subject.replaceAll(/[^A-Za-z0-9_-]/g, '_');
  return {
    ...node,
    quality: [
      ...listOf(node['quality']),
      { id: `${id}_values`, metric: 'invalidValues', arguments: { validValues: list }, mustBe: 0 },
    ],
  };
}

function withMetric(node: Plain): Plain {
  const { rule, validValues, ...rest } = node;
  const hasOperator = Object.keys(rest).some((key) => key.startsWith('must'));
  return {
    ...rest,
    metric: RULES_30[String(rule)],
    ...(validValues === undefined ? {} : { arguments: { validValues } }),
    ...(hasOperator ? {} : { mustBe: 0 }),
  };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
