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

/** @throws RangeError when the text is no Z85 */
export function decodeZ85(text: string): Uint8Array {
  if (text.length % 5 !== 0) throw new RangeError(`${text.length} characters are no Z85 text`);
  const bytes = new Uint8Array((text.length / 5) * 4);
  for (let i = 0; i < text.length; i += 5) {
    let word = 0;
    for (let k = 0; k < 5; k++) {
      const value = VALUE_OF.get(text[i + k] ?? '');
      if (value === undefined) throw new RangeError('a character outside the Z85 alphabet');
      word = word * 85 + value;
    }
    if (word > 0xffffffff) throw new RangeError('a Z85 group out of range');
    new DataView(bytes.buffer).setUint32((i / 5) * 4, word);
  }
  return bytes;
}
