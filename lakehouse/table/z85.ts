/** Z85 (ZeroMQ RFC 32): 4 bytes, big-endian, as 5 characters, most significant first. */
const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#';
const VALUE_OF = new Map(Array.from(ALPHABET, (char, i) => [char, i]));

/** `bytes` padded with zeros to a multiple of 4; who decodes knows the true length. */
export function encodeZ85(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i += 4) {
    let word = 0;
    for (let k = 0; k < 4; k++) word = word * 256 + (bytes[i + k] ?? 0);
    let group = '';
    for (let k = 0; k < 5; k++) {
      group = (ALPHABET[word % 85] ?? '') + group;
      word = Math.floor(word / 85);
    }
    text += group;
  }
  return text;
}

/**
 * Some writers end a text whose bytes are no multiple of 4 by a group that begins with `#`, one for each byte missing: the
 * digits after them hold the rest. No full group begins so, its value would leave 32 bits.
 * @throws RangeError when the text is no Z85
 */
export function decodeZ85(text: string): Uint8Array {
  if (text.length % 5 !== 0) throw new RangeError(`${text.length} characters are no Z85 text`);
  const tail = /^#{1,3}/.exec(text.slice(-5))?.[0].length ?? 0;
  const bytes = new Uint8Array((text.length / 5) * 4 - tail);
  let at = 0;
  for (let i = 0; i < text.length; i += 5) {
    const missing = i + 5 === text.length ? tail : 0;
    let word = 0;
    for (let k = missing; k < 5; k++) {
      const value = VALUE_OF.get(text[i + k] ?? '');
      if (value === undefined) throw new RangeError('a character outside the Z85 alphabet');
      word = word * 85 + value;
    }
    if (word >= 256 ** (4 - missing)) throw new RangeError('a Z85 group out of range');
    for (let k = 3 - missing; k >= 0; k--) bytes[at++] = Math.floor(word / 256 ** k) % 256;
  }
  return bytes;
}
