/**
 * JSON text → values without losing a digit: a whole number is number while safe, else bigint; any other number keeps its
 * text. json and jsonb columns are checked through this; the text itself goes to the lake untouched.
 */
export class JsonDecimal {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
export type JsonValue =
  | null
  | boolean
  | string
  | number
  | bigint
  | JsonDecimal
  | readonly JsonValue[]
  | ReadonlyMap<string, JsonValue>;

const DEPTH_MAX = 200;

/** Undefined when the text is no JSON, or nests deeper than 200. */
export function parseExactJson(text: string): JsonValue | undefined {
  const state: State = { text, at: 0 };
  const value = readValue(state, 0);
  skipBlank(state);
  return state.at === text.length ? value : undefined;
}

interface State {
  readonly text: string;
  at: number;
}

function readValue(state: State, depth: number): JsonValue | undefined {
  skipBlank(state);
  const code = state.text.charCodeAt(state.at);
  if (depth > DEPTH_MAX) return undefined;
  switch (code) {
    case 123:
      return readObject(state, depth);
    case 91:
      return readArray(state, depth);
    case 34:
      return readString(state);
    case 116:
      return readWord(state, 'true', true);
    case 102:
      return readWord(state, 'false', false);
    case 110:
      return readWord(state, 'null', null);
    default:
      return readNumber(state);
  }
}

function readObject(state: State, depth: number): JsonValue | undefined {
  const members = new Map<string, JsonValue>();
  state.at++;
  skipBlank(state);
  if (take(state, 125)) return members;
  do {
    skipBlank(state);
    if (state.text.charCodeAt(state.at) !== 34) return undefined;
    const key = readString(state);
    skipBlank(state);
    if (key === undefined || !take(state, 58)) return undefined;
    const value = readValue(state, depth + 1);
    if (value === undefined) return undefined;
    members.set(key, value);
    skipBlank(state);
  } while (take(state, 44));
  return take(state, 125) ? members : undefined;
}

function readArray(state: State, depth: number): JsonValue | undefined {
  const items: JsonValue[] = [];
  state.at++;
  skipBlank(state);
  if (take(state, 93)) return items;
  do {
    const value = readValue(state, depth + 1);
    if (value === undefined) return undefined;
    items.push(value);
    skipBlank(state);
  } while (take(state, 44));
  return take(state, 93) ? items : undefined;
}

function readString(state: State): string | undefined {
  const { text } = state;
  const start = state.at;
  let at = start + 1;
  let escaped = false;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 34) break;
    if (code === 92) {
      escaped = true;
      at++;
    }
  }
  if (at >= text.length) return undefined;
  state.at = at + 1;
  if (!escaped) return text.slice(start + 1, at);
  try {
    return JSON.parse(text.slice(start, at + 1)) as string;
  } catch {
    return undefined;
  }
}

function readNumber(state: State): JsonValue | undefined {
  const { text } = state;
  const start = state.at;
  while (state.at < text.length && '+-.0123456789eE'.includes(text.charAt(state.at))) state.at++;
  const written = text.slice(start, state.at);
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(written)) return undefined;
  if (!/^-?\d+$/.test(written)) return new JsonDecimal(written);
  const value = Number(written);
  return Number.isSafeInteger(value) ? value : BigInt(written);
}

function readWord(state: State, word: string, value: JsonValue): JsonValue | undefined {
  if (!state.text.startsWith(word, state.at)) return undefined;
  state.at += word.length;
  return value;
}

function take(state: State, code: number): boolean {
  if (state.text.charCodeAt(state.at) !== code) return false;
  state.at++;
  return true;
}

function skipBlank(state: State): void {
  for (;;) {
    const code = state.text.charCodeAt(state.at);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
    state.at++;
  }
}
