/**
 * Memory of a load's batches, for the next ones. A batch of a load takes some 25 MB of columns, all of it garbage when it is
 * committed: taken anew each time it is cleared, faulted in, and brings on a collection of all garbage that costs more than
 * what it finds. Two batches' memory is kept, one that is written and one that is decoded, and none for longer than a pause.
 */
import { createIdleTimer } from '../../lakehouse/thread/idle-timer.ts';
import type { ColumnBuilder } from './columns/column-builder.ts';
import { createColumnBuilder } from './columns/create-builder.ts';
import { KeyNumbers } from './key-numbers.ts';
import { RowMeta } from './row-meta.ts';
import type { PlanField } from './table-plan.ts';

export interface BatchMemory {
  readonly builders: ColumnBuilder[];
  readonly meta: RowMeta;
  readonly keyNumbers: KeyNumbers;
}

const KINDS = [
  'boolean',
  'long',
  'integer',
  'double',
  'string',
  'binary',
  'date',
  'timestamp',
  'decimal(12,2)',
] as const;
/**
 * One of each kind that never goes. V8 throws away what it compiled for a form of objects when none of them is left, and between
 * two batches there may be none: a load compiled half of its code again and again.
 */
export const KEPT: readonly object[] = [
  ...KINDS.map((type) => createColumnBuilder(type)),
  new RowMeta(),
  new KeyNumbers(),
];

/** Rows from which on it is worth it: half of a chunk of a snapshot. Smaller batches take little. */
const ROWS_MIN = 10_000;
const SETS_MAX = 2;
/** A set that has grown beyond this, by wide rows, is let go. */
const SET_BYTES_MAX = 64 * 1024 * 1024;
const IDLE_MS = 2_000;

/** By the types of its columns. */
let spare: { readonly types: string; readonly memory: BatchMemory }[] = [];
const idle = createIdleTimer(IDLE_MS, () => (spare = []));

const typesOf = (fields: readonly PlanField[]): string => JSON.stringify(fields.map(({ type }) => type));

/** Memory that is empty, for so many rows of these fields; null when there is none. */
export function takeMemory(fields: readonly PlanField[], rows: number): BatchMemory | null {
  if (rows < ROWS_MIN) return null;
  const types = typesOf(fields);
  const at = spare.findIndex((set) => set.types === types);
  return at < 0 ? null : (spare.splice(at, 1)[0]?.memory ?? null);
}

/** Nobody reads the batch any more. */
export function giveMemory(fields: readonly PlanField[], { builders, meta, keyNumbers }: BatchMemory): void {
  if (meta.length < ROWS_MIN) return;
  if (builders.reduce((sum, builder) => sum + builder.bytesHeld(), meta.bytesHeld()) > SET_BYTES_MAX) return;
  for (const builder of builders) builder.reset();
  meta.reset();
  keyNumbers.reset();
  spare = [{ types: typesOf(fields), memory: { builders, meta, keyNumbers } }, ...spare].slice(0, SETS_MAX);
  idle.touch();
}
