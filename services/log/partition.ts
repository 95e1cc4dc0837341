/**
 * Kafka's default partitioner for keyed records: murmur2 of the key, sign bit off, modulo the partition count
 * (Kafka's DefaultPartitioner, seed 0x9747b28c). Both adapters use it, so a key stands in one partition on either log.
 */
export function partitionOf(key: Buffer | null, partitions: number): number {
  // A record without a key (TRUNCATE names its partition itself) has one fixed place, so that its order is kept.
  if (key === null || partitions === 1) return 0;
  return (murmur2(key) & 0x7fffffff) % partitions;
}

const M = 0x5bd1e995;

/** 32-bit murmur2, as a signed integer. */
export function murmur2(data: Uint8Array): number {
  const { length } = data;
  let h = 0x9747b28c ^ length;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k =
      (data[i] as number) |
      ((data[i + 1] as number) << 8) |
      ((data[i + 2] as number) << 16) |
      ((data[i + 3] as number) << 24);
    k = Math.imul(k, M);
    k ^= k >>> 24;
    h = Math.imul(h, M) ^ Math.imul(k, M);
  }
  const rest = length - i;
  if (rest === 3) h ^= (data[i + 2] as number) << 16;
  if (rest >= 2) h ^= (data[i + 1] as number) << 8;
  if (rest >= 1) h = Math.imul(h ^ (data[i] as number), M);
  h ^= h >>> 13;
  h = Math.imul(h, M);
  return h ^ (h >>> 15);
}
