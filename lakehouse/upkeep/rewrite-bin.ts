/**
 * The living rows of a bin's files, written again to few files. Where each row came from is kept until the commit: a merge
 * may mark rows of the old files meanwhile, and the marks are then carried over to the new ones.
 */
import { writeDataFiles, type FileSettings, type RowsToWrite } from '../merge/data-files.ts';
import { arrangeRows, joinBatches, pickRows, rowIdentity } from '../merge/delete-rows.ts';
import { readRowGroups, type FileTable } from '../merge/read-rows.ts';
import { NO_ROWS, type VectorCache } from '../merge/vector-cache.ts';
import type { AddFile } from '../table/actions.ts';
import { batchBytes } from '../table/pack-batch.ts';
import type { ColumnBatch } from '../table/column.ts';
import { containsRow, type RowSet } from '../table/row-bitmap.ts';
import { FULL_FILE_TAG, type Bin } from './compact-plan.ts';
import { orderRows, type RowOrder } from './row-order.ts';

export interface OutputFile {
  readonly add: AddFile;
  readonly ordinal: number | null;
  /** Of each row: number of the bin's file that it came from, and its row there. */
  readonly fromFile: Uint16Array;
  readonly fromRow: Uint32Array;
}

export interface RewrittenBin {
  /** As they stood when they were read. */
  readonly inputs: readonly AddFile[];
  readonly outputs: readonly OutputFile[];
  /** Rows of the inputs that vectors hid, and that are gone now. */
  readonly rowsPurged: number;
}

export interface RewriteInput {
  readonly snapshot: FileTable;
  readonly settings: FileSettings;
  readonly vectors: VectorCache;
  /** Null where no index is kept. */
  readonly keyColumns: readonly string[] | null;
  readonly order: RowOrder | null;
  readonly onEntries: (entries: Uint32Array) => Promise<void>;
}

interface Pending {
  parts: ColumnBatch[];
  fromFile: number[];
  fromRow: Uint32Array[];
  rows: number;
  bytes: number;
}

export async function rewriteBin(input: RewriteInput, bin: Bin): Promise<RewrittenBin> {
  const { snapshot, settings, vectors } = input;
  const outputs: OutputFile[] = [];
  let rowsPurged = 0;
  let pending = nothing();
  for (const [number, file] of bin.files.entries()) {
    const dead = (await vectors.rowsOf(snapshot.store, [file])).get(file.path) ?? NO_ROWS;
    rowsPurged += dead.length;
    for await (const { rowStart, batch } of readRowGroups(snapshot, file, settings.schema.fields)) {
      const kept = livingRowsOf(batch.rowCount, rowStart, dead);
      if (kept.length === 0) continue;
      const part = pickRows(batch, kept);
      pending.parts.push(part);
      pending.fromFile.push(number);
      pending.fromRow.push(kept.map((row) => row + rowStart));
      pending.rows += part.rowCount;
      pending.bytes += batchBytes(part);
      if (pending.rows < settings.fileRowsMax && pending.bytes < settings.fileBytesMax) continue;
      outputs.push(...(await writePending(input, pending)).map(asFull));
      pending = nothing();
    }
  }
  if (pending.rows > 0) outputs.push(...(await writePending(input, pending)));
  return { inputs: bin.files, outputs, rowsPurged };
}

/** Written up to the limit: joining it with others would only write it again. */
const asFull = (output: OutputFile): OutputFile => ({
  ...output,
  add: { ...output.add, tags: { ...output.add.tags, [FULL_FILE_TAG]: 'true' } },
});

const nothing = (): Pending => ({ parts: [], fromFile: [], fromRow: [], rows: 0, bytes: 0 });

function livingRowsOf(rowCount: number, rowStart: number, dead: RowSet): Uint32Array {
  const rows = new Uint32Array(rowCount);
  let kept = 0;
  for (let row = 0; row < rowCount; row++) if (!containsRow(dead, rowStart + row)) rows[kept++] = row;
  return rows.subarray(0, kept);
}

async function writePending(input: RewriteInput, pending: Pending): Promise<OutputFile[]> {
  const { settings, keyColumns, order } = input;
  let batch = joinBatches(pending.parts);
  let fromFile = new Uint16Array(pending.rows);
  let fromRow = new Uint32Array(pending.rows);
  let at = 0;
  pending.fromRow.forEach((rows, i) => {
    fromFile.fill(pending.fromFile[i] ?? 0, at, at + rows.length);
    fromRow.set(rows, at);
    at += rows.length;
  });
  if (order !== null) {
    const rows = orderRows(batch, order);
    batch = arrangeRows(batch, rows);
    fromFile = Uint16Array.from(rows, (row) => fromFile[row] ?? 0);
    fromRow = Uint32Array.from(rows, (row) => fromRow[row] ?? 0);
  }
  // The limit is met by the last row group, and passed a little: no reason to cut the file in two.
  const roomy = { ...settings, fileRowsMax: settings.fileRowsMax * 2, fileBytesMax: settings.fileBytesMax * 2 };
  const written = await writeDataFiles(roomy, rowsToWrite(batch, keyColumns));
  if (keyColumns !== null) await input.onEntries(written.entries);
  return written.adds.map((add, i): OutputFile => {
    const file = written.files[i];
    const rows = file?.rows ?? null;
    return {
      add,
      ordinal: file?.ordinal ?? null,
      fromFile: rows === null ? fromFile : Uint16Array.from(rows, (row) => fromFile[row] ?? 0),
      fromRow: rows === null ? fromRow : Uint32Array.from(rows, (row) => fromRow[row] ?? 0),
    };
  });
}

function rowsToWrite(batch: ColumnBatch, keyColumns: readonly string[] | null): RowsToWrite {
  if (keyColumns !== null) return { ...rowIdentity(batch, keyColumns), batch };
  const none = new Uint32Array(0);
  return {
    batch,
    hashes: none,
    positions: { epoch: new Int32Array(0), ord: new Int32Array(0), lsnWords: none },
    softDeleted: null,
  };
}

/**
 * Rows of an output file that came from the given rows of the bin's files (by the file's number). One pass over the output,
 * however many files: it may be done while batches wait.
 */
export function rowsFrom(output: OutputFile, wanted: ReadonlyMap<number, RowSet>): RowSet {
  const { fromFile, fromRow } = output;
  const marks = new Map([...wanted].map(([number, rows]) => [number, bitmapOf(rows)]));
  const found: number[] = [];
  let file = -1;
  let bits: Uint8Array | undefined;
  for (let row = 0; row < fromRow.length; row++) {
    if (fromFile[row] !== file) bits = marks.get((file = fromFile[row] ?? 0));
    if (bits === undefined) continue;
    const from = fromRow[row] ?? 0;
    if (((bits[from >>> 3] ?? 0) & (1 << (from & 7))) !== 0) found.push(row);
  }
  return Uint32Array.from(found);
}

function bitmapOf(rows: RowSet): Uint8Array {
  const bits = new Uint8Array(((rows.at(-1) ?? 0) >>> 3) + 1);
  for (const row of rows) bits[row >>> 3] = (bits[row >>> 3] ?? 0) | (1 << (row & 7));
  return bits;
}
