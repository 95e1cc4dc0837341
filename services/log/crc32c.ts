/** CRC-32C (Castagnoli, RFC 3720 appendix B.4), eight bytes a step: the checksum of Kafka's record batches. */
const TABLES = Array.from({ length: 8 }, () => new Uint32Array(256));
const [T0, T1, T2, T3, T4, T5, T6, T7] = TABLES as [
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
];
for (let byte = 0; byte < 256; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value & 1) === 0 ? value >>> 1 : (value >>> 1) ^ 0x82f63b78;
  T0[byte] = value >>> 0;
}
for (let byte = 0; byte < 256; byte++) {
  let value = T0[byte] as number;
  for (let table = 1; table < 8; table++) {
    value = (value >>> 8) ^ (T0[value & 255] as number);
    (TABLES[table] as Uint32Array)[byte] = value >>> 0;
  }
}

export function crc32c(bytes: Uint8Array, from = 0, to = bytes.length): number {
  let crc = 0xffffffff;
  let i = from;
  for (; i + 8 <= to; i += 8) {
    crc ^=
      (bytes[i] as number) |
      ((bytes[i + 1] as number) << 8) |
      ((bytes[i + 2] as number) << 16) |
      ((bytes[i + 3] as number) << 24);
    crc =
      (T7[crc & 255] as number) ^
      (T6[(crc >>> 8) & 255] as number) ^
      (T5[(crc >>> 16) & 255] as number) ^
      (T4[crc >>> 24] as number) ^
      (T3[bytes[i + 4] as number] as number) ^
      (T2[bytes[i + 5] as number] as number) ^
      (T1[bytes[i + 6] as number] as number) ^
      (T0[bytes[i + 7] as number] as number);
  }
  for (; i < to; i++) crc = (crc >>> 8) ^ (T0[(crc ^ (bytes[i] as number)) & 255] as number);
  return (crc ^ 0xffffffff) >>> 0;
}
