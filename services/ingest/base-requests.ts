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
  readonly sleep?: (ms: number) => Promise<void>;
}

export interface BaseRequests {
  /** False where nobody can be asked, or the log's key is not the source's. */
  able(shape: TableShape): boolean;
  /** Asked for, and the answer may still come. */
  readonly pending: (key: KeyCell) => boolean;
  /** Something waits that was not asked for. */
  unasked(awaiting: Awaiting): boolean;
  ask(awaiting: Awaiting, decode: RecordDecoder, shape: TableShape): void;
  close(): void;
}

/** An answer takes the reader's chunk and a batch; one that got lost is asked for again. */
const ANSWER_MS = 60_000;
const AFTER_FAILURE_MS = 3_000;
const KEYS_PER_REQUEST = 500;

export function createBaseRequests(options: BaseRequestsOptions): BaseRequests {
  const { schemaName, tableName, request } = options;
  const sleep = options.sleep ?? pause;
  const asked = new Set<KeyCell>();
  let closed = false;

  /** Asks until the rows have come: what is asked for leaves the set when a batch took it up. */
  const send = async (wanted: ReadonlyMap<KeyCell, readonly string[]>, ask: RequestRows): Promise<void> => {
    for (let open = [...wanted]; open.length > 0 && !closed; open = open.filter(([key]) => asked.has(key))) {
      let waitMs = ANSWER_MS;
      try {
        await ask(
          schemaName,
          tableName,
          open.map(([, texts]) => texts),
        );
      } catch {
        // The reader says what is wrong with it; the events wait meanwhile.
        waitMs = AFTER_FAILURE_MS;
      }
      await sleep(waitMs);
    }
  };

  return {
    able: (shape) => request !== null && readable(shape),
    pending: (key) => asked.has(key),
    unasked(awaiting) {
      for (const [key] of awaiting.firsts()) if (!asked.has(key)) return true;
      return false;
    },
    ask(awaiting, decode, shape) {
      for (const known of asked) if (!awaiting.has(known)) asked.delete(known);
      if (request === null || !readable(shape)) return;
      const key = keyOf(shape);
      let wanted = new Map<KeyCell, readonly string[]>();
      for (const [cell, record] of awaiting.firsts()) {
        if (asked.has(cell)) continue;
        asked.add(cell);
        const { row } = decode(record);
        wanted.set(
          cell,
          key.map((column) => inputText(column, row[column.name] ?? null)),
        );
        if (wanted.size < KEYS_PER_REQUEST) continue;
        void send(wanted, request);
        wanted = new Map();
      }
      if (wanted.size > 0) void send(wanted, request);
    },
    close() {
      closed = true;
    },
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
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
