/**
 * Whether columns are a key of a table's rows: none NULL, none twice. Keys are compared by hash, in ranges of the hash that fit
 * into memory: a table of any size is read once per range, its key columns alone.
 */
import { HASH_WORDS, hashKeys } from '../index/key-hash.ts';
import { isNull, type ColumnBatch } from '../table/column.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { scan } from './scan.ts';

export interface KeyCheck {
  readonly rows: number;
  /** Rows with a NULL in a key column. */
  readonly nullRows: number;
  /** Keys that more than one row has. */
  readonly repeatedKeys: number;
}

export interface KeyCheckOptions {
  /** Hashes held at a time, two at least; 16 million (128 MB) by default. */
  readonly hashesMax?: number;
  readonly signal?: AbortSignal;
}

const HASHES_MAX = 16_000_000;
const TOP = 1n << 64n;

/** @throws KeyTypeError for list, struct and map columns; as `scan` */
export async function checkKeys(
  snapshot: Snapshot,
  keyColumns: readonly string[],
  options: KeyCheckOptions = {},
): Promise<KeyCheck> {
  const hashesMax = options.hashesMax ?? HASHES_MAX;
  let [rows, nullRows] = [0, 0];
  const suspects = new Set<bigint>();
  for (let from = 0n; from < TOP;) {
    const range = createRange(from, hashesMax);
    let [seen, nulls] = [0, 0];
    for await (const batch of scan(snapshot, { columns: keyColumns })) {
      options.signal?.throwIfAborted();
      const hashes = hashKeys(batch.columns, batch.rowCount);
      seen += batch.rowCount;
      for (let row = 0; row < batch.rowCount; row++) {
        if (hasNull(batch, row)) nulls++;
        else range.add(headOf(hashes, row));
      }
    }
    [rows, nullRows] = [seen, nulls];
    for (const hash of range.repeated()) suspects.add(hash);
    from = range.end();
  }
  const repeatedKeys = suspects.size === 0 ? 0 : await settle(snapshot, keyColumns, suspects);
  return { rows, nullRows, repeatedKeys };
}

/** Half a hash may be shared by two keys of a large table: what is suspected is compared by the whole of it. */
async function settle(
  snapshot: Snapshot,
  keyColumns: readonly string[],
  suspects: ReadonlySet<bigint>,
): Promise<number> {
  const counts = new Map<string, number>();
  for await (const batch of scan(snapshot, { columns: keyColumns })) {
    const hashes = hashKeys(batch.columns, batch.rowCount);
    for (let row = 0; row < batch.rowCount; row++) {
      if (!suspects.has(headOf(hashes, row)) || hasNull(batch, row)) continue;
      const whole = hashes.subarray(row * HASH_WORDS, (row + 1) * HASH_WORDS).join(' ');
      counts.set(whole, (counts.get(whole) ?? 0) + 1);
    }
  }
  let repeated = 0;
  for (const count of counts.values()) if (count > 1) repeated++;
  return repeated;
}

/** Repeated keys that are looked at closely: a table with more is refused all the same. */
const SUSPECTS_MAX = 10_000;

interface HashRange {
  add(hash: bigint): void;
  /** Hashes that came twice. */
  repeated(): readonly bigint[];
  /** Where the next range begins. */
  end(): bigint;
}

/** From `from` on as far as memory allows: when it is full, its upper half is left to a later range. */
function createRange(from: bigint, hashesMax: number): HashRange {
  let held = new BigUint64Array(Math.min(hashesMax, 65_536));
  let count = 0;
  let end = TOP;

  const narrow = (): void => {
    end = from + (end - from) / 2n;
    let kept = 0;
    for (let i = 0; i < count; i++) {
      const hash = held[i] ?? 0n;
      if (hash < end) held[kept++] = hash;
    }
    count = kept;
  };

  return {
    add(hash) {
      if (hash < from || hash >= end) return;
      if (count === held.length) {
        if (held.length < hashesMax) {
          const larger = new BigUint64Array(Math.min(hashesMax, held.length * 2));
          larger.set(held);
          held = larger;
        } else {
          while (count === held.length && end - from > 1n) narrow();
          // Still full: all of one hash, and that many equal keys need no count.
          if (count === held.length || hash >= end) return;
        }
      }
      held[count++] = hash;
    },
    repeated() {
      const sorted = held.subarray(0, count).sort();
      const out: bigint[] = [];
      for (let i = 1; i < count && out.length < SUSPECTS_MAX; i++) {
        const hash = sorted[i] ?? 0n;
        if (hash === sorted[i - 1] && hash !== out.at(-1)) out.push(hash);
      }
      return out;
    },
    end: () => end,
  };
}

function headOf(hashes: Uint32Array, row: number): bigint {
  return (BigInt(hashes[row * HASH_WORDS] ?? 0) << 32n) | BigInt(hashes[row * HASH_WORDS + 1] ?? 0);
}

function hasNull({ columns }: ColumnBatch, row: number): boolean {
  for (const column of columns) if (isNull(column, row)) return true;
  return false;
}
