/**
 * JSON whose numbers keep their digits. `JSON.parse` turns 9007199254740993 into another number and Node 20 offers
 * neither `JSON.rawJSON` nor the source text in a reviver, so integers beyond 2^53 are kept as `bigint`, and what else a
 * double cannot give back as `ExactNumber`. All other values are what `JSON.parse` gives.
 */

/** A number literal whose digits a double would not give back, e.g. 12345678901234567890.12 or -1E-18. */
export class ExactNumber {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Where a literal may lie that a double loses: sixteen digits or more, or a fraction or exponent. It may also match inside
 * a string: that costs the slow path, never the right answer.
 */
const RISKY = /(?:^|[:[,\s])-?(?:\d{16}|\d+[.eE])/;

const MINUS_ZERO = /(?:^|[:[,\s])-0/;

/** @throws SyntaxError */
export function parseLossless(text: string): unknown {
  if (!RISKY.test(text) && !MINUS_ZERO.test(text)) return JSON.parse(text);
  const parser = new Parser(text);
  return parser.document();
}

export function stringifyLossless(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map((item) => stringifyLossless(item)).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const members: string[] = [];
    for (const [name, member] of Object.entries(value)) {
      if (member !== undefined) members.push(`${JSON.stringify(name)}:${stringifyLossless(member)}`);
    }
    return `{${members.join(',')}}`;
  }
  return value === undefined ? 'null' : JSON.stringify(value);
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const INTEGER = /^-?\d+$/;
const DEPTH_MAX = 2_000;

/** The value of a JSON number literal, exactly; an integer beyond 2^53 is a bigint, also where a double has all its digits. */
export function exactNumber(literal: string): number | bigint | ExactNumber {
  const near = Number(literal);
  if (String(near) === literal && (Number.isSafeInteger(near) || !Number.isInteger(near))) return near;
  if (INTEGER.test(literal) && literal !== '-0') return BigInt(literal);
  return new ExactNumber(literal);
}

class Parser {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): unknown {
    const value = this.#value();
    this.#space();
    if (this.#at !== this.#text.length) throw this.#error();
    return value;
  }

  #value(): unknown {
    this.#space();
    switch (this.#text[this.#at]) {
      case '{':
        return this.#nested(() => this.#object());
      case '[':
        return this.#nested(() => this.#array());
      case '"':
        return this.#string();
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #nested<T>(read: () => T): T {
    if (++this.#depth > DEPTH_MAX) throw new SyntaxError('JSON nested too deeply');
    const value = read();
    this.#depth--;
    return value;
  }

  #object(): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    this.#at++;
    if (this.#take('}')) return object;
    do {
      this.#space();
      const name = this.#string();
      if (!this.#take(':')) throw this.#error();
      const value = this.#value();
      // A plain assignment to `__proto__` would set the prototype instead of a member.
      if (name === '__proto__')
        Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
      else object[name] = value;
    } while (this.#take(','));
    if (!this.#take('}')) throw this.#error();
    return object;
  }

  #array(): unknown[] {
    const array: unknown[] = [];
    this.#at++;
    if (this.#take(']')) return array;
    do array.push(this.#value());
    while (this.#take(','));
    if (!this.#take(']')) throw this.#error();
    return array;
  }

  #string(): string {
    const text = this.#text;
    const start = this.#at;
    if (text[start] !== '"') throw this.#error();
    let end = start + 1;
    for (;;) {
      end = text.indexOf('"', end);
      if (end < 0) throw new SyntaxError('unterminated string in JSON');
      let slashes = 0;
      while (text[end - 1 - slashes] === '\\') slashes++;
      if (slashes % 2 === 0) break;
      end++;
    }
    this.#at = end + 1;
    // The engine's own decoder for one literal: escapes, surrogates and forbidden control characters as it has them.
    return String(JSON.parse(text.slice(start, end + 1)));
  }

  #number(): number | bigint | ExactNumber {
    NUMBER.lastIndex = this.#at;
    const literal = NUMBER.exec(this.#text)?.[0];
    if (literal === undefined) throw this.#error();
    this.#at += literal.length;
    return exactNumber(literal);
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) throw this.#error();
    this.#at += word.length;
    return value;
  }

  #take(character: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at++;
    }
  }

  /** Names the place, never the content: the text may be row data (statistics). */
  #error(): SyntaxError {
    return new SyntaxError(`unexpected ${this.#at < this.#text.length ? 'character' : 'end'} in JSON at ${this.#at}`);
  }
}
