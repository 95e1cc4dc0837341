/**
 * SHA-256 of one short message, in JavaScript: for keys, which are many and short, the call into the runtime and what it
 * allocates cost more than the hash. The same bytes come out of `node:crypto`, which longer messages go to.
 */

/** What fits one block beside the end mark and the length. */
export const ONE_BLOCK_BYTES = 55;

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
const w = new Int32Array(64);

/**
 * Writes the first 16 bytes of the hash of message[0 .. length) to out[at .. at + 4), as the bytes of four little-endian
 * words. `message` has room for 56 bytes, and what stands behind `length` is overwritten.
 * @param length ONE_BLOCK_BYTES at most
 */
export function hashShort(message: Uint8Array, length: number, out: Uint32Array, at: number): void {
  const words = (length >> 2) + 1;
  message[length] = 0x80;
  for (let i = length + 1; i < words * 4; i++) message[i] = 0;
  for (let i = 0, byte = 0; i < words; i++, byte += 4)
    w[i] =
      ((message[byte] as number) << 24) |
      ((message[byte + 1] as number) << 16) |
      ((message[byte + 2] as number) << 8) |
      (message[byte + 3] as number);
  for (let i = words; i < 15; i++) w[i] = 0;
  w[15] = length << 3;
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
  let t = 0;
  // A round moves each of the eight words on to the next; eight rounds written out move none, in three quarters of the time.
  for (let i = 0; i < 64; i += 8) {
    t = (h + sum1(e) + (g ^ (e & (f ^ g))) + (K[i] as number) + (w[i] as number)) | 0;
    d = (d + t) | 0;
    h = (t + sum0(a) + ((a & b) | (c & (a | b)))) | 0;
    t = (g + sum1(d) + (f ^ (d & (e ^ f))) + (K[i + 1] as number) + (w[i + 1] as number)) | 0;
    c = (c + t) | 0;
    g = (t + sum0(h) + ((h & a) | (b & (h | a)))) | 0;
    t = (f + sum1(c) + (e ^ (c & (d ^ e))) + (K[i + 2] as number) + (w[i + 2] as number)) | 0;
    b = (b + t) | 0;
    f = (t + sum0(g) + ((g & h) | (a & (g | h)))) | 0;
    t = (e + sum1(b) + (d ^ (b & (c ^ d))) + (K[i + 3] as number) + (w[i + 3] as number)) | 0;
    a = (a + t) | 0;
    e = (t + sum0(f) + ((f & g) | (h & (f | g)))) | 0;
    t = (d + sum1(a) + (c ^ (a & (b ^ c))) + (K[i + 4] as number) + (w[i + 4] as number)) | 0;
    h = (h + t) | 0;
    d = (t + sum0(e) + ((e & f) | (g & (e | f)))) | 0;
    t = (c + sum1(h) + (b ^ (h & (a ^ b))) + (K[i + 5] as number) + (w[i + 5] as number)) | 0;
    g = (g + t) | 0;
    c = (t + sum0(d) + ((d & e) | (f & (d | e)))) | 0;
    t = (b + sum1(g) + (a ^ (g & (h ^ a))) + (K[i + 6] as number) + (w[i + 6] as number)) | 0;
    f = (f + t) | 0;
    b = (t + sum0(c) + ((c & d) | (e & (c | d)))) | 0;
    t = (a + sum1(f) + (h ^ (f & (g ^ h))) + (K[i + 7] as number) + (w[i + 7] as number)) | 0;
    e = (e + t) | 0;
    a = (t + sum0(b) + ((b & c) | (d & (b | c)))) | 0;
  }
  out[at] = swapped((a + 0x6a09e667) | 0);
  out[at + 1] = swapped((b + 0xbb67ae85) | 0);
  out[at + 2] = swapped((c + 0x3c6ef372) | 0);
  out[at + 3] = swapped((d + 0xa54ff53a) | 0);
}

function sum0(x: number): number {
  return ((x >>> 2) | (x << 30)) ^ ((x >>> 13) | (x << 19)) ^ ((x >>> 22) | (x << 10));
}

function sum1(x: number): number {
  return ((x >>> 6) | (x << 26)) ^ ((x >>> 11) | (x << 21)) ^ ((x >>> 25) | (x << 7));
}

/** The word with its bytes in the other order. */
function swapped(word: number): number {
  return (word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24);
}
