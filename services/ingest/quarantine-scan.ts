/** Reads the quarantine table back: what is parked, for the keys that it blocks, for listings and for retries. */
import { createVectorCache } from '../../lakehouse/merge/vector-cache.ts';
import { readRowGroups } from '../../lakehouse/merge/read-rows.ts';
import { containsRow } from '../../lakehouse/table/row-bitmap.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { valueAt } from '../stream/row-view.ts';
import type { RowValue } from '../stream/sink.ts';
import { StreamError } from '../stream/stream-error.ts';
import { keyCellFromText } from './key-cell.ts';
import type { KeyCell } from './key-cell.ts';
import type { ParkedEntry } from './parked-keys.ts';
import { QUARANTINE_FORMAT } from './quarantine-row.ts';
import type { QuarantineStatus } from './quarantine-row.ts';

export interface QuarantineRow {
  readonly id: string;
  readonly status: QuarantineStatus;
  readonly attempts: number;
  readonly batchId: bigint;
  /** `YYYY-MM-DDTHH:MM:SS[.ffffff]Z` */
  readonly quarantinedAt: string;
  readonly ruleIds: readonly string[];
  readonly codes: readonly string[];
  readonly columns: readonly (string | null)[];
  readonly messages: readonly string[];
  /** Masked where the column is classified. */
  readonly value: string | null;
  readonly contractId: string;
  readonly contractVersion: string;
  readonly contractHash: string;
  readonly op: string | null;
  readonly key: KeyCell | null;
  readonly absentColumns: readonly string[];
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
  readonly shapeVersion: number;
  readonly committedAt: string | null;
  readonly recordKey: Buffer | null;
  readonly recordValue: Buffer | null;
  readonly recordHeader: Buffer | null;
}

/** Rows with one of the statuses, in no order. `withBytes` false leaves the record itself out. */
export async function* scanQuarantine(
  snapshot: Snapshot,
  options: { readonly statuses: ReadonlySet<QuarantineStatus>; readonly withBytes: boolean },
): AsyncGenerator<QuarantineRow> {
  const vectors = createVectorCache();
  const files = [...snapshot.files];
  const dead = await vectors.rowsOf(snapshot.store, files);
  const fields = snapshot.schema.fields.filter(
    ({ name }) => !name.startsWith('_sluice_') && (options.withBytes || !name.startsWith('record_')),
  );
  for (const file of files) {
    const gone = dead.get(file.path);
    for await (const { rowStart, batch } of readRowGroups(snapshot, file, fields)) {
      for (let row = 0; row < batch.rowCount; row++) {
        if (gone !== undefined && gone.length > 0 && containsRow(gone, rowStart + row)) continue;
        const cells = new Map<string, RowValue>();
        fields.forEach(({ name, type }, index) => {
          const column = batch.columns[index];
          if (column !== undefined) cells.set(name, valueAt(column, type, row));
        });
        const read = rowOf(cells);
        if (options.statuses.has(read.status)) yield read;
      }
    }
  }
}

/** What each parked key needs, for `createParkedKeys`. */
export async function loadParked(snapshot: Snapshot | null): Promise<Map<KeyCell, ParkedEntry[]>> {
  const byKey = new Map<KeyCell, ParkedEntry[]>();
  if (snapshot === null) return byKey;
  for await (const row of scanQuarantine(snapshot, { statuses: new Set(['parked']), withBytes: false })) {
    if (row.key === null) continue;
    const { id, epoch, lsn, ord, absentColumns } = row;
    byKey.set(row.key, [...(byKey.get(row.key) ?? []), { id, epoch, lsn, ord, absentColumns }]);
  }
  return byKey;
}

function rowOf(cells: ReadonlyMap<string, RowValue>): QuarantineRow {
  const format = Number(cells.get('format_version') ?? QUARANTINE_FORMAT);
  if (format > QUARANTINE_FORMAT)
    throw new StreamError(
      'FORMAT_NEWER',
      `a quarantine row has format ${format}`,
      'run the newer version that wrote it',
    );
  const text = (name: string): string => String(cells.get(name) ?? '');
  const textOrNull = (name: string): string | null => {
    const value = cells.get(name) ?? null;
    return value === null ? null : String(value);
  };
  const number = (name: string): number => Number(cells.get(name) ?? 0);
  const long = (name: string): bigint => BigInt((cells.get(name) as bigint | null | undefined) ?? 0n);
  const list = (name: string): readonly string[] => (cells.get(name) as readonly string[] | null | undefined) ?? [];
  const bytes = (name: string): Buffer | null => {
    const value = cells.get(name) ?? null;
    return value instanceof Uint8Array ? Buffer.from(value) : null;
  };
  const key = textOrNull('key');
  return {
    id: text('id'),
    status: text('status') as QuarantineStatus,
    attempts: number('attempts'),
    batchId: long('batch_id'),
    quarantinedAt: text('quarantined_at'),
    ruleIds: list('rule_ids'),
    codes: list('codes'),
    columns: list('columns'),
    messages: list('messages'),
    value: textOrNull('value'),
    contractId: text('contract_id'),
    contractVersion: text('contract_version'),
    contractHash: text('contract_hash'),
    op: textOrNull('op'),
    key: key === null ? null : keyCellFromText(key),
    absentColumns: list('absent_columns'),
    topic: text('topic'),
    partition: number('partition'),
    offset: long('offset'),
    epoch: number('epoch'),
    lsn: BigInt.asUintN(64, long('lsn')),
    ord: number('ord'),
    shapeVersion: number('shape_version'),
    committedAt: textOrNull('committed_at'),
    recordKey: bytes('record_key'),
    recordValue: bytes('record_value'),
    recordHeader: bytes('record_header'),
  };
}
