/**
 * Formats of `logicalTypeOptions.format` on strings that are enforced on every event, scanned by character in one pass. Other
 * words are free in the standard and only document; lint says so.
 */
export type FormatTest = (text: string) => boolean;

const FORMATS: Readonly<Record<string, FormatTest>> = {
  uuid: isUuid,
  email: isEmail,
  uri: isUri,
  url: isUri,
  byte: isBase64,
  ipv4: isIpv4,
  hostname: isHostname,
};

/** Null when the word is not enforced. `binary` is a storage form, not a format of text. */
export function formatTest(format: string): FormatTest | null {
  return Object.hasOwn(FORMATS, format) ? (FORMATS[format] ?? null) : null;
}
export const ENFORCED_FORMATS: readonly string[] = Object.keys(FORMATS);

function isUuid(text: string): boolean {
  if (text.length !== 36) return false;
  for (let i = 0; i < 36; i++) {
    const code = text.charCodeAt(i);
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (code !== 45) return false;
    } else if (!isHex(code)) return false;
  }
  return true;
}

/** One @, something on either side, no blank or control character, a domain of non-empty labels; at most 320 characters (RFC 3696). */
function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@');
  if (at < 1 || at > 64 || text.length > 320 || at === text.length - 1) return false;
  let quoted = false;
  for (let i = 0; i < at; i++) {
    const code = text.charCodeAt(i);
    if (code === 34) quoted = !quoted;
    if (!quoted && (code <= 32 || code === 127 || code === 64)) return false;
  }
  if (quoted || text.charCodeAt(0) === 46 || text.charCodeAt(at - 1) === 46) return false;
  return isHostname(text.slice(at + 1));
}

function isHostname(text: string): boolean {
  if (text.length === 0 || text.length > 253) return false;
  let label = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : 46;
    if (code === 46) {
      if (label === 0 || label > 63 || text.charCodeAt(i - 1) === 45) return false;
      label = 0;
      continue;
    }
    // Beyond ASCII an internationalised name is taken as it is.
    const word = isDigit(code) || isLetter(code) || code > 127 || (code === 45 && label > 0);
    if (!word) return false;
    label++;
  }
  return true;
}

/** A scheme, a colon, and something without blanks or control characters (RFC 3986, loosely: percent signs are checked). */
function isUri(text: string): boolean {
  const colon = text.indexOf(':');
  if (colon < 1 || colon === text.length - 1 || !isLetter(text.charCodeAt(0))) return false;
  for (let i = 1; i < colon; i++) {
    const code = text.charCodeAt(i);
    if (!isLetter(code) && !isDigit(code) && code !== 43 && code !== 45 && code !== 46) return false;
  }
  for (let i = colon + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (
      code <= 32 ||
      code === 127 ||
      code === 34 ||
      code === 60 ||
      code === 62 ||
      code === 92 ||
      code === 94 ||
      code === 96
    )
      return false;
    if (code === 123 || code === 124 || code === 125) return false;
    if (code === 37 && !(isHex(text.charCodeAt(i + 1)) && isHex(text.charCodeAt(i + 2)))) return false;
  }
  return true;
}

/** RFC 4648, padded. */
export function isBase64(text: string): boolean {
  const { length } = text;
  if (length % 4 !== 0) return false;
  let end = length;
  if (end > 0 && text.charCodeAt(end - 1) === 61) end -= text.charCodeAt(end - 2) === 61 ? 2 : 1;
  for (let i = 0; i < end; i++) {
    const code = text.charCodeAt(i);
    if (!isLetter(code) && !isDigit(code) && code !== 43 && code !== 47) return false;
  }
  return true;
}

function isIpv4(text: string): boolean {
  let parts = 0;
  let value = -1;
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : 46;
    if (code === 46) {
      if (value < 0 || value > 255) return false;
      parts++;
      value = -1;
    } else if (isDigit(code) && value !== 0) value = (value < 0 ? 0 : value * 10) + code - 48;
    else return false;
  }
  return parts === 4;
}

/** Code points, as PostgreSQL's char_length counts them. */
export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    const code = text.charCodeAt(i);
    if (code < 0xd800 || code > 0xdbff) continue;
    const next = text.charCodeAt(i + 1);
    if (next >= 0xdc00 && next <= 0xdfff) {
      count--;
      i++;
    }
  }
  return count;
}

function isHex(code: number): boolean {
  return isDigit(code) || (code >= 65 && code <= 70) || (code >= 97 && code <= 102);
}
function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
function isLetter(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}
