/**
 * Compares source and lake by row contents at a known LSN, while writes go on.
 *
 *   1. Read the source in one REPEATABLE READ snapshot: per bucket of the key's hash a count and an order-independent sum
 *      of row hashes. Note the WAL position after that snapshot; wait until the lake has everything up to it.
 *   2. Sum the lake the same way. Buckets that agree are equal.
 *   3. Of the buckets that differ, read keys and row hashes of both sides; the keys that differ are candidates: a write
 *      between the snapshot and the lake's version looks like a difference.
 *   4. Re-check candidates alone, each round at a newer LSN, until a key is equal, or both images stood still for a whole
 *      round and still differ.
 */
import type { TableShape } from '../../log/event.ts';
import { compareBuckets, groupBuckets, type BucketSums } from './buckets.ts';

export interface RowImage {
  /** Canonical text of the row. */
  readonly text: string;
}

/** Keys by canonical key text. */
export type Images = Map<string, RowImage>;

export interface SourceSnapshot {
  /** WAL position by which everything this snapshot sees is in the WAL. */
  readonly lsn: bigint;
  sums(buckets: number): Promise<BucketSums>;
  /** Rows of these buckets. */
  images(buckets: number, wanted: ReadonlySet<number>): Promise<Images>;
  /** Rows of these keys (canonical key texts). */
  rows(keys: readonly string[]): Promise<Images>;
  close(): Promise<void>;
}

export interface LakeSnapshot {
  readonly version: bigint;
  sums(buckets: number): Promise<BucketSums>;
  images(buckets: number, wanted: ReadonlySet<number>): Promise<Images>;
  rows(keys: readonly string[]): Promise<Images>;
}

export interface VerifyPorts {
  readonly source: (table: TableShape) => Promise<SourceSnapshot>;
  /** Resolves once the lake holds every event up to this LSN. */
  readonly reached: (lsn: bigint) => Promise<void>;
  readonly lake: (table: TableShape) => Promise<LakeSnapshot>;
  /** Canonical keys whose events are parked: their rows may differ by right. */
  readonly parked: (table: TableShape) => Promise<ReadonlySet<string>>;
}

export type DifferenceKind = 'differs' | 'missing' | 'extra';
export interface Difference {
  readonly kind: DifferenceKind;
  /** Canonical key text; the caller masks it before showing. */
  readonly key: string;
  readonly source: string | null;
  readonly lake: string | null;
}

export interface TableVerification {
  readonly table: string;
  readonly equal: boolean;
  readonly sourceRows: number;
  readonly lakeRows: number;
  readonly lsn: bigint;
  readonly lakeVersion: bigint;
  /** Keys that differ and are parked in quarantine: reported, not counted as differences. */
  readonly parkedKeys: number;
  readonly differences: readonly Difference[];
  /** Keys still moving when the rounds ran out; neither equal nor different. */
  readonly unsettled: number;
  readonly rounds: number;
  /** The lake's key is a hash: a row cannot be asked for by it at the source. */
  readonly keyReplaced?: boolean;
}

export interface VerifyOptions {
  readonly buckets: number;
  readonly roundsMax: number;
  /** Differences kept with their images; the rest are counted by kind only. */
  readonly differencesMax: number;
  /** Rows of both sides held at once while differing buckets are compared. */
  readonly imagesMax: number;
  /** Candidates re-checked; with more the table is called different at once, and the first of them are shown. */
  readonly candidatesMax: number;
}

export const VERIFY_DEFAULTS: VerifyOptions = {
  buckets: 4096,
  roundsMax: 20,
  differencesMax: 1_000,
  imagesMax: 100_000,
  candidatesMax: 20_000,
};

export async function verifyTable(
  table: TableShape,
  ports: VerifyPorts,
  options: VerifyOptions = VERIFY_DEFAULTS,
): Promise<TableVerification> {
  const first = await firstPass(table, ports, options);
  let candidates = first.candidates;
  let previous: Map<string, string> | null = null;
  let settled: Difference[] = [];
  let rounds = 0;
  while (candidates.size > 0 && rounds < options.roundsMax) {
    rounds += 1;
    const now = await recheck(table, ports, [...candidates]);
    const next = new Set<string>();
    settled = [];
    const seen = new Map<string, string>();
    for (const difference of now) {
      const print = `${difference.source ?? ''}\u0000${difference.lake ?? ''}`;
      seen.set(difference.key, print);
      if (previous?.get(difference.key) === print) settled.push(difference);
      else next.add(difference.key);
    }
    previous = seen;
    candidates = next.size === 0 ? next : new Set([...next, ...settled.map((difference) => difference.key)]);
  }
  const parked = settled.length > 0 ? await ports.parked(table) : new Set<string>();
  const differences = settled.filter((difference) => !parked.has(difference.key));
  return {
    table: `${table.schema}.${table.table}`,
    equal: differences.length === 0 && candidates.size === 0,
    sourceRows: first.sourceRows,
    lakeRows: first.lakeRows,
    lsn: first.lsn,
    lakeVersion: first.lakeVersion,
    parkedKeys: settled.length - differences.length,
    differences: differences.slice(0, options.differencesMax),
    unsettled: candidates.size === 0 ? 0 : candidates.size - settled.length,
    rounds,
  };
}

interface FirstPass {
  readonly lsn: bigint;
  readonly lakeVersion: bigint;
  readonly sourceRows: number;
  readonly lakeRows: number;
  readonly candidates: Set<string>;
}

async function firstPass(table: TableShape, ports: VerifyPorts, options: VerifyOptions): Promise<FirstPass> {
  const source = await ports.source(table);
  try {
    const sourceSums = await source.sums(options.buckets);
    await ports.reached(source.lsn);
    const lake = await ports.lake(table);
    const lakeSums = await lake.sums(options.buckets);
    const wanted = compareBuckets(sourceSums, lakeSums);
    const candidates = new Set<string>();
    if (wanted.size > 0) {
      for (const group of groupBuckets(wanted, [sourceSums, lakeSums], options.imagesMax)) {
        const [left, right] = [await source.images(options.buckets, group), await lake.images(options.buckets, group)];
        for (const difference of differencesOf(left, right)) candidates.add(difference.key);
        if (candidates.size >= options.candidatesMax) break;
      }
    }
    return {
      lsn: source.lsn,
      lakeVersion: lake.version,
      sourceRows: sourceSums.rows,
      lakeRows: lakeSums.rows,
      candidates,
    };
  } finally {
    await source.close();
  }
}

async function recheck(table: TableShape, ports: VerifyPorts, keys: readonly string[]): Promise<Difference[]> {
  const source = await ports.source(table);
  try {
    const left = await source.rows(keys);
    await ports.reached(source.lsn);
    const right = await (await ports.lake(table)).rows(keys);
    return differencesOf(left, right);
  } finally {
    await source.close();
  }
}

function differencesOf(source: Images, lake: Images): Difference[] {
  const found: Difference[] = [];
  for (const [key, image] of source) {
    const other = lake.get(key);
    if (other === undefined) found.push({ kind: 'missing', key, source: image.text, lake: null });
    else if (other.text !== image.text) found.push({ kind: 'differs', key, source: image.text, lake: other.text });
  }
  for (const [key, image] of lake) {
    if (!source.has(key)) found.push({ kind: 'extra', key, source: null, lake: image.text });
  }
  return found;
}
