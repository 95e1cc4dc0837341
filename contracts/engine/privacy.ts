/**
 * What may leave the gate of a personal or classified value, and what becomes of it on its way: hash, mask, null, drop. Pure
 * functions over cells: the reader applies them before the log, ingest before the lake, as the contract says.
 */
import type { Cell } from './gate.ts';

/** The longest value that a violation shows. */
const SHOWN_MAX = 200;
export const MASK = '***';

/** Says that there is a value, and no more: neither its length nor its type. */
export function maskValue(_value: Cell): string {
  return MASK;
}

/** A value as text for a violation of an unclassified column; long ones are cut. */
export function showValue(value: Cell): string {
  const text = typeof value === 'string' ? value : jsonText(value);
  return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}…`;
}

function jsonText(value: Cell): string {
  if (typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean') return `${value}`;
  return JSON.stringify(value, (_key, part: unknown) => (typeof part === 'bigint' ? `${part}` : part));
}
