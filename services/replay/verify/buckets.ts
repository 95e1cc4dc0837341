/** Sums over ranges of the key's hash: equal count and equal order-independent sum mean equal rows (2^-64 a bucket). */
import { createHash } from 'node:crypto';

export interface BucketSums {
  readonly rows: number;
  /** Rows and sum of signed 64-bit row hashes, a bucket. Absent = no rows. */
  readonly byBucket: ReadonlyMap<number, { readonly rows: number; readonly sum: bigint }>;
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
  return createHash('md5').update(text, 'utf8').digest().readBigInt64BE(0);
}

export function bucketOf(keyText: string, buckets: number): number {
  const first = createHash('md5').update(keyText, 'utf8').digest().readUInt32BE(0);
  return Math.floor((first * buckets) / 4_294_967_296);
}
