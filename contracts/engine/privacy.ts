/**
 * What may leave the gate of a personal or classified value, and what becomes of it on its way: hash, mask, null, drop. Pure
 * functions over cells: the reader applies them before the log, ingest before the lake, as the contract says (`piiStage`).
 * Values hashed with one key are equal wherever they stand, so that hashed columns still join; another key, another pseudonym.
 */
import { createHmac } from 'node:crypto';

import type { CatalogColumn } from './catalog.ts';
import type { Cell, GateRow } from './gate.ts';
import type { Column, PiiAction, PiiStage, TableContract } from './model.ts';
import { mapContractColumn } from './type-table.ts';
import type { TypeMapping } from './type-table.ts';

/** The longest value that a violation shows. */
const SHOWN_MAX = 200;
export const MASK = '***';
const KEY_BYTES_MIN = 16;

export type PrivacyErrorCode = 'PII_KEY_MISSING' | 'PII_KEY_TOO_SHORT';

export class PrivacyError extends Error {
  readonly code: PrivacyErrorCode;
  constructor(code: PrivacyErrorCode, message: string) {
    super(message);
    this.name = 'PrivacyError';
    this.code = code;
  }
}

/** Canonical text → pseudonym. */
export type Hasher = (text: string) => string;

/** HMAC-SHA-256 (RFC 2104) as 64 hexadecimal characters. Throws PrivacyError for a key under 16 bytes. */
export function createHasher(key: Uint8Array): Hasher {
  if (key.length < KEY_BYTES_MIN)
    throw new PrivacyError(
      'PII_KEY_TOO_SHORT',
      `the key for hashing personal data has ${key.length} bytes; it needs ${KEY_BYTES_MIN} or more`,
    );
  const secret = Buffer.from(key);
  return (text) => createHmac('sha256', secret).update(text, 'utf8').digest('hex');
}

/** Names a key without telling it: pseudonyms made with keys of different names are not equal. */
export function keyIdOf(key: Uint8Array): string {
  return createHasher(key)('sluice key id').slice(0, 12);
}

export interface PrivacyPlan {
  readonly columns: readonly { readonly name: string; readonly action: PiiAction }[];
  readonly hasher: Hasher | null;
}

/**
 * What a stage has to do to a table's rows; null when it has nothing to do. Throws PrivacyError PII_KEY_MISSING when a column
 * must be hashed and there is no hasher: clear text never passes for lack of a key.
 */
export function privacyPlan(table: TableContract, stage: PiiStage, hasher: Hasher | null): PrivacyPlan | null {
  const plan = latePrivacyPlan(table, stage, hasher);
  const hashed = plan?.columns.find((column) => column.action === 'hash');
  if (hashed !== undefined && hasher === null)
    throw new PrivacyError(
      'PII_KEY_MISSING',
      `column ${table.name}.${hashed.name} must be hashed, but no key is configured`,
    );
  return plan;
}

/** The same for values that another stage should have replaced: the key is missed only where one of them was not. */
export function latePrivacyPlan(table: TableContract, stage: PiiStage, hasher: Hasher | null): PrivacyPlan | null {
  const columns = table.columns.flatMap(({ name, piiAction, piiStage }) =>
    piiAction !== null && piiStage === stage ? [{ name, action: piiAction }] : [],
  );
  return columns.length === 0 ? null : { columns, hasher };
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Changes the row in place; works on whole rows, key rows and old rows alike. NULL stays NULL, absent stays absent. `done`:
 * columns that were replaced on their way already, which are let alone.
 */
export function applyPrivacy(plan: PrivacyPlan, row: GateRow, done: ReadonlySet<string> = NONE): void {
  for (const { name, action } of plan.columns) {
    const cell = row[name];
    if (cell === undefined || done.has(name)) continue;
    if (action === 'drop') row[name] = undefined;
    else if (cell !== null) row[name] = replaced(cell, action, plan.hasher);
  }
}

function replaced(cell: NonNullable<Cell>, action: Exclude<PiiAction, 'drop'>, hasher: Hasher | null): Cell {
  switch (action) {
    case 'hash':
      if (hasher === null)
        throw new PrivacyError('PII_KEY_MISSING', 'a column must be hashed, but no key is configured');
      return hasher(canonicalText(cell));
    case 'mask':
      return MASK;
    case 'null':
      return null;
  }
}

/** One text for one value: 42 as a number and as a bigint hash alike. */
export function canonicalText(cell: NonNullable<Cell>): string {
  return typeof cell === 'string' ? cell : jsonText(cell);
}

/** How the lake keeps a column after privacy: hashed and masked ones as string; null for one that is dropped. */
export function lakeMapping(column: Column, live: CatalogColumn | null): TypeMapping | null {
  if (column.piiAction === 'drop') return null;
  const mapping = mapContractColumn(column, live);
  return column.piiAction === 'hash' || column.piiAction === 'mask' ? { ...mapping, delta: 'string' } : mapping;
}

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
