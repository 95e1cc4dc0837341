/** A batch's rows into data files, and beside them what changed: slice by slice, where stored rows make them large. */
import type { BaseRows } from './base-rows.ts';
import { writeChangeFiles, type ChangeFiles, type ChangePart } from './change-files.ts';
import { writeDataFiles, type FileSettings, type RowsToWrite, type WrittenFiles } from './data-files.ts';
import { pickRows } from './delete-rows.ts';
import { recordCount } from './file-stats.ts';
import type { KeyedBatch } from './keyed-batch.ts';
import type { Resolution } from './resolve.ts';
import type { RowPlan } from './row-plan.ts';
import { slicePlan, type RowSlice } from './row-slices.ts';
import type { MergedSchema } from './table-schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { buildWrittenRows, type WritePlan, type WrittenRows } from './written-rows.ts';

export interface RowsInput {
  readonly snapshot: Snapshot;
  readonly keyed: KeyedBatch;
  readonly merged: MergedSchema;
  readonly resolution: Resolution;
  readonly plan: RowPlan;
  readonly baseRows: BaseRows;
  /** Path of a file by its ordinal. */
  readonly pathOf: (file: number) => string | undefined;
  /** Change files are wanted: of every row, and of those that go as they stood. */
  readonly feed: boolean;
  /** Stored bytes, compressed, of the rows that a slice brings back. */
  readonly storedBytesMax: number;
}

export interface RowFiles {
  readonly files: readonly WrittenFiles[];
  readonly changes: readonly ChangeFiles[];
  /** Values of stored rows went into them. */
  readonly usedBase: boolean;
}

export async function writeRows(input: RowsInput, target: FileSettings): Promise<RowFiles> {
  const { plan, resolution, keyed, feed } = input;
  // With change files a row is held as it was, as it is, and as both are written.
  const bytesMax = feed ? input.storedBytesMax / 2 : input.storedBytesMax;
  const slices = takesStored(input) ? slicePlan(plan, resolution, storedWidth(input), bytesMax) : [plan];
  const files: WrittenFiles[] = [];
  const changes: ChangeFiles[] = [];
  let usedBase = false;
  for (const slice of slices) {
    const imagesOf = feed ? slice.replaced : new Uint32Array(0);
    const written = await buildWrittenRows({ ...input, plan: slice.write, imagesOf });
    usedBase ||= written.usedBase;
    const rows = { batch: written.batch, ...rowsIdentity(keyed, slice.write) };
    const data = writeDataFiles(target, rows);
    // One after the other where there is much: side by side they would take their memory twice.
    if (slices.length > 1) await data;
    const [wrote, changed] = await Promise.all([
      data,
      feed ? writeChangeFiles(target, changeParts(slice, written)) : null,
    ]);
    files.push(wrote);
    if (changed !== null) changes.push(changed);
  }
  return { files, changes, usedBase };
}

/** Whether stored rows may be read at all. */
function takesStored({ keyed, merged, plan, feed }: RowsInput): boolean {
  if (feed || plan.write.softDeleted !== null) return true;
  return merged.schema.fields.some((_, i) => {
    const from = merged.batchIndex[i] ?? -1;
    return from < 0 || (keyed.absent[from] ?? null) !== null;
  });
}

function storedWidth({ snapshot, pathOf }: RowsInput): (file: number) => number {
  return (ordinal) => {
    const path = pathOf(ordinal);
    const file = path === undefined ? null : snapshot.files.get(path);
    return file === null ? 0 : Number(file.size) / Math.max(1, recordCount(file) ?? 1);
  };
}

/** Hashes and positions of the rows that are written. */
function rowsIdentity(keyed: KeyedBatch, { rows, softDeleted }: WritePlan): Omit<RowsToWrite, 'batch'> {
  if (rows.length === keyed.source.rowCount)
    return { hashes: keyed.hashes, positions: keyed.positions, softDeleted, order: keyed.order };
  const hashes = new Uint32Array(rows.length * 4);
  const epoch = new Int32Array(rows.length);
  const ord = new Int32Array(rows.length);
  const lsnWords = new Uint32Array(rows.length * 2);
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] ?? 0;
    for (let word = 0; word < 4; word++) hashes[i * 4 + word] = keyed.hashes[row * 4 + word] ?? 0;
    epoch[i] = keyed.positions.epoch[row] ?? 0;
    ord[i] = keyed.positions.ord[row] ?? 0;
    lsnWords[i * 2] = keyed.positions.lsnWords[row * 2] ?? 0;
    lsnWords[i * 2 + 1] = keyed.positions.lsnWords[row * 2 + 1] ?? 0;
  }
  return { hashes, positions: { epoch, ord, lsnWords }, softDeleted };
}

function changeParts(plan: RowSlice, written: WrittenRows): readonly ChangePart[] {
  const { base, baseAt, batch } = written;
  if (base === null) return [{ type: 'insert', rows: batch }];
  const before = new Set(plan.replaced);
  const writtenRows = new Set(plan.write.rows);
  const pick = (rows: readonly number[]): Uint32Array => Uint32Array.from(rows);
  const updated = [...plan.replaced].filter((row) => writtenRows.has(row));
  const deleted = [...plan.replaced].filter((row) => !writtenRows.has(row));
  const at = (row: number): number => baseAt[row] ?? 0;
  const places = [...plan.write.rows.keys()];
  const isUpdate = (place: number): boolean => before.has(plan.write.rows[place] ?? 0);
  return [
    { type: 'update_preimage', rows: pickRows(base, pick(updated.map(at))) },
    { type: 'update_postimage', rows: pickRows(batch, pick(places.filter(isUpdate))) },
    { type: 'delete', rows: pickRows(base, pick(deleted.map(at))) },
    { type: 'insert', rows: pickRows(batch, pick(places.filter((place) => !isUpdate(place)))) },
  ];
}
