/**
 * Events still without a base when the table's snapshot is complete (a row that moved between two blocks, a key that entered a
 * row filter: an INSERT can carry unchanged TOAST). Their rows are asked for at the reader, which reads those keys as a chunk
 * of their own; the row comes through the log like any other and takes the waiting events up.
 *
 * What waits is durable (the hold-back offsets, committed with the table); the asking is not, and need not be: whoever starts
 * again has the events and asks again, and what is read twice changes nothing.
 */
import type { Cell } from '../../contracts/engine/gate.ts';
import type { ColumnShape, TableShape } from '../log/event.ts';
import type { Awaiting } from './awaiting.ts';
import { cellText } from './columns/bytes-builders.ts';
import type { RecordDecoder } from './decode-batch.ts';
import type { KeyCell } from './key-cell.ts';

/** Keys as PostgreSQL's texts in key order. Resolves when they are read, or the request is durable. */
export type RequestRows = (schema: string, table: string, keys: readonly (readonly string[])[]) => Promise<unknown>;

export interface BaseRequestsOptions {
  readonly schemaName: string;
  readonly tableName: string;
  /** Null: nobody can be asked. */
  readonly request: RequestRows | null;
  readonly now: () => number;
}

export interface BaseRequests {
  /** False where nobody can be asked, or the log's key is not the source's. */
  able(shape: TableShape): boolean;
  /** Asked for, and the answer may still come. */
  readonly pending: (key: KeyCell) => boolean;
  /** Something waits that was not asked for, or whose answer did not come. */
  unasked(awaiting: Awaiting): boolean;
  ask(awaiting: Awaiting, decode: RecordDecoder, shape: TableShape): void;
}

/** An answer takes the reader's chunk and a batch; one that got lost is asked for again. */
const ANSWER_MS = 60_000;
const AFTER_FAILURE_MS = 3_000;
const KEYS_PER_REQUEST = 500;

export function createBaseRequests({ schemaName, tableName, request, now }: BaseRequestsOptions): BaseRequests {
  /** Until when an answer is waited for. */
  const asked = new Map<KeyCell, number>();
  const pending = (key: KeyCell): boolean => (asked.get(key) ?? 0) > now();

  const send = async (keys: readonly KeyCell[], texts: readonly (readonly string[])[], ask: RequestRows) => {
    try {
      await ask(schemaName, tableName, texts);
    } catch {
      // The reader says what is wrong with it; the events wait meanwhile.
      for (const key of keys) asked.set(key, now() + AFTER_FAILURE_MS);
    }
  };

  return {
    able: (shape) => request !== null && readable(shape),
    pending,
    unasked(awaiting) {
      for (const [key] of awaiting.firsts()) if (!pending(key)) return true;
      return false;
    },
    ask(awaiting, decode, shape) {
      if (request === null || !readable(shape)) return;
      const key = keyOf(shape);
      for (const known of asked.keys()) if (!awaiting.has(known)) asked.delete(known);
      let keys: KeyCell[] = [];
      let texts: (readonly string[])[] = [];
      for (const [cell, record] of awaiting.firsts()) {
        if (pending(cell)) continue;
        asked.set(cell, now() + ANSWER_MS);
        keys.push(cell);
        const { row } = decode(record);
        texts.push(key.map((column) => inputText(column, row[column.name] ?? null)));
        if (keys.length < KEYS_PER_REQUEST) continue;
        void send(keys, texts, request);
        keys = [];
        texts = [];
      }
      if (keys.length > 0) void send(keys, texts, request);
    },
  };
}

/** Key columns in key order. */
function keyOf({ columns }: TableShape): readonly ColumnShape[] {
  return columns.filter(({ keyPosition }) => keyPosition > 0).sort((a, b) => a.keyPosition - b.keyPosition);
}

/** Keys that stand in the log as PostgreSQL would read them. */
function readable(shape: TableShape): boolean {
  const key = keyOf(shape);
  return (
    key.length > 0 &&
    key.every(({ kind, replaced }) => replaced === undefined && kind !== 'array' && kind !== 'composite')
  );
}

/** As PostgreSQL reads it; bytea stands in the log as base64. */
function inputText(column: ColumnShape, cell: Cell): string {
  const text = cellText(cell);
  const type = column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType;
  return type === 'bytea' ? `\\x${Buffer.from(text, 'base64').toString('hex')}` : text;
}
