/**
 * SHA-256 of one short message, in JavaScript: for keys, which are many and short, the call into the runtime and what it
 * allocates cost more than the hash. The same bytes come out of `node:crypto`, which longer messages go to.
 */

/** What fits one block beside the end mark and the length. */
export const ONE_BLOCK_BYTES = 55;
const BLOCK_BYTES = 64;

const K = Int32Array.of(
  0x428a2f98,
  0x71374491,
  0xb5c0fbcf,
  0xe9b5dba5,
  0x3956c25b,
  0x59f111f1,
  0x923f82a4,
  0xab1c5ed5,
  0xd807aa98,
  0x12835b01,
  0x243185be,
  0x550c7dc3,
  0x72be5d74,
  0x80deb1fe,
  0x9bdc06a7,
  0xc19bf174,
  0xe49b69c1,
  0xefbe4786,
  0x0fc19dc6,
  0x240ca1cc,
  0x2de92c6f,
  0x4a7484aa,
  0x5cb0a9dc,
  0x76f988da,
  0x983e5152,
  0xa831c66d,
  0xb00327c8,
  0xbf597fc7,
  0xc6e00bf3,
  0xd5a79147,
  0x06ca6351,
  0x14292967,
  0x27b70a85,
  0x2e1b2138,
  0x4d2c6dfc,
  0x53380d13,
  0x650a7354,
  0x766a0abb,
  0x81c2c92e,
  0x92722c85,
  0xa2bfe8a1,
  0xa81a664b,
  0xc24b8b70,
  0xc76c51a3,
  0xd192e819,
  0xd6990624,
  0xf40e3585,
  0x106aa070,
  0x19a4c116,
  0x1e376c08,
  0x2748774c,
  0x34b0bcb5,
  0x391c0cb3,
  0x4ed8aa4a,
  0x5b9cca4f,
  0x682e6ff3,
  0x748f82ee,
  0x78a5636f,
  0x84c87814,
  0x8cc70208,
  0x90befffa,
  0xa4506ceb,
  0xbef9a3f7,
  0xc67178f2,
);
const schedule = new Int32Array(64);

/**
 * Writes the first 16 bytes of the hash of message[0 .. length) to out[at .. at + 4), as the bytes of four little-endian
 * words. `message` has room for 64 bytes, and what stands behind `length` is overwritten.
 * @param length ONE_BLOCK_BYTES at most
 */
export function hashShort(message: Uint8Array, length: number, out: Uint32Array, at: number): void {
  const w = schedule;
  message[length] = 0x80;
  for (let i = length + 1; i < BLOCK_BYTES - 2; i++) message[i] = 0;
  message[62] = length >> 5;
  message[63] = (length << 3) & 0xff;
  for (let i = 0, byte = 0; i < 16; i++, byte += 4)
    w[i] =
      ((message[byte] as number) << 24) |
      ((message[byte + 1] as number) << 16) |
      ((message[byte + 2] as number) << 8) |
      (message[byte + 3] as number);
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15] as number;
    const y = w[i - 2] as number;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = ((w[i - 16] as number) + s0 + (w[i - 7] as number) + s1) | 0;
  }
  let a = 0x6a09e667;
  let b = 0xbb67ae85 | 0;
  let c = 0x3c6ef372;
  let d = 0xa54ff53a | 0;
  let e = 0x510e527f;
  let f = 0x9b05688c | 0;
  let g = 0x1f83d9ab;
  let h = 0x5be0cd19;
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + (K[i] as number) + (w[i] as number)) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  out[at] = swapped((a + 0x6a09e667) | 0);
  out[at + 1] = swapped((b + 0xbb67ae85) | 0);
  out[at + 2] = swapped((c + 0x3c6ef372) | 0);
  out[at + 3] = swapped((d + 0xa54ff53a) | 0);
}

/** The word with its bytes in the other order. */
function swapped(word: number): number {
  return (word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24);
}
