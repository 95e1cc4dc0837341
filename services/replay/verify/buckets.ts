/** Sums over ranges of the key's hash: equal count and equal order-independent sum mean equal rows (2^-64 a bucket). */
import { hash } from 'node:crypto';

export interface BucketSums {
  readonly rows: number;
  /** Rows and sum of signed 64-bit row hashes, a bucket. Absent = no rows. */
  readonly byBucket: ReadonlyMap<number, { readonly rows: number; readonly sum: bigint }>;
}

/** Sums in the making. */
export type BucketTotals = Map<number, { rows: number; sum: bigint }>;

/** Takes rows and the sum of their hashes into a bucket. */
export function addToBucket(totals: BucketTotals, bucket: number, rows: number, sum: bigint): void {
  const known = totals.get(bucket);
  if (known === undefined) totals.set(bucket, { rows, sum });
  else {
    known.rows += rows;
    known.sum += sum;
  }
}

/** Buckets whose count or sum differs. */
export function compareBuckets(a: BucketSums, b: BucketSums): Set<number> {
  const differing = new Set<number>();
  for (const [bucket, left] of a.byBucket) {
    const right = b.byBucket.get(bucket);
    if (right === undefined || right.rows !== left.rows || right.sum !== left.sum) differing.add(bucket);
  }
  for (const bucket of b.byBucket.keys()) if (!a.byBucket.has(bucket)) differing.add(bucket);
  return differing;
}

/** Splits buckets into groups whose rows, of all sides together, stay below a limit (a single larger bucket stands alone). */
export function groupBuckets(
  wanted: ReadonlySet<number>,
  sides: readonly BucketSums[],
  rowsMax: number,
): Set<number>[] {
  const groups: Set<number>[] = [];
  let group = new Set<number>();
  let rows = 0;
  for (const bucket of wanted) {
    const size = sides.reduce((sum, side) => sum + (side.byBucket.get(bucket)?.rows ?? 0), 0);
    if (group.size > 0 && rows + size > rowsMax) {
      groups.push(group);
      group = new Set();
      rows = 0;
    }
    group.add(bucket);
    rows += size;
  }
  if (group.size > 0) groups.push(group);
  return groups;
}

/** First 64 bits of the MD5, signed, as PostgreSQL's `('x' || …)::bit(64)::bigint`. Not a secret: equality of texts only. */
export function rowHash(text: string): bigint {
  return hash('md5', text, 'buffer').readBigInt64BE(0);
}

export function bucketOf(keyText: string, buckets: number): number {
  const first = hash('md5', keyText, 'buffer').readUInt32BE(0);
  return Math.floor((first * buckets) / 4_294_967_296);
}

/** A sample of a table: these buckets of the key's hash, as runs. Every key of them is compared, on both sides. */
export interface Sample {
  readonly buckets: number;
  readonly runs: readonly { readonly from: number; readonly to: number }[];
}

const RUNS_MAX = 16;

/** Draws runs of buckets that hold this share of all keys, at random places. */
export function drawSample(fraction: number, buckets: number, random: () => number): Sample {
  const wanted = Math.min(buckets, Math.max(1, Math.round(fraction * buckets)));
  const count = Math.min(RUNS_MAX, wanted);
  // One run in each of so many equal parts of the space, so that they never overlap.
  const part = buckets / count;
  const runs = Array.from({ length: count }, (_, index) => {
    const length = Math.floor((wanted * (index + 1)) / count) - Math.floor((wanted * index) / count);
    const start = Math.ceil(part * index);
    const room = Math.floor(part * (index + 1)) - start - length;
    const from = start + Math.floor(random() * Math.max(1, room + 1));
    return { from, to: from + length - 1 };
  });
  return { buckets, runs };
}

export function inSample(sample: Sample | null, bucket: number): boolean {
  return sample === null || sample.runs.some(({ from, to }) => bucket >= from && bucket <= to);
}

export function sampledShare({ buckets, runs }: Sample): number {
  return runs.reduce((sum, { from, to }) => sum + to - from + 1, 0) / buckets;
}
