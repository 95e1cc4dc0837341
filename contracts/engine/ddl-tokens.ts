/** SQL text → tokens, enough for DDL: words, quoted names, strings, numbers and marks; comments and dollar quotes understood. */
export interface Token {
  readonly kind: 'word' | 'name' | 'string' | 'number' | 'mark';
  /** Words in lower case, names and strings without quotes. */
  readonly text: string;
  /** Offsets into the source. */
  readonly start: number;
  readonly end: number;
}

export function tokenise(source: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < source.length) {
    const token = readToken(source, at);
    if (token.kind !== 'skip') tokens.push({ kind: token.kind, text: token.text, start: at, end: token.end });
    at = token.end;
  }
  return tokens;
}

type Read = { readonly kind: Token['kind'] | 'skip'; readonly text: string; readonly end: number };

function readToken(source: string, at: number): Read {
  const char = source.charAt(at);
  if (/\s/.test(char)) return { kind: 'skip', text: '', end: at + 1 };
  if (source.startsWith('--', at))
    return { kind: 'skip', text: '', end: endOr(source.indexOf('\n', at), source.length) };
  if (source.startsWith('/*', at)) return { kind: 'skip', text: '', end: commentEnd(source, at) };
  if (char === "'") return readQuoted(source, at, "'", 'string');
  if (char === '"') return readQuoted(source, at, '"', 'name');
  const rest = source.slice(at, at + 200);
  const dollar = /^\$(?:[A-Za-z_]\w*)?\$/.exec(rest)?.[0];
  if (dollar !== undefined) {
    const close = endOr(source.indexOf(dollar, at + dollar.length), source.length);
    return {
      kind: 'string',
      text: source.slice(at + dollar.length, close),
      end: Math.min(source.length, close + dollar.length),
    };
  }
  const word = /^[\p{L}_][\p{L}\p{N}_$]*/u.exec(rest)?.[0];
  if (word !== undefined) return { kind: 'word', text: word.toLowerCase(), end: at + word.length };
  const number = /^\d+(?:\.\d+)?/.exec(rest)?.[0];
  if (number !== undefined) return { kind: 'number', text: number, end: at + number.length };
  const mark = rest.startsWith('::') ? '::' : char;
  return { kind: 'mark', text: mark, end: at + mark.length };
}

/** PostgreSQL's comments nest. */
function commentEnd(source: string, start: number): number {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = start;
  let depth = 0;
  for (let mark = marks.exec(source); mark !== null; mark = marks.exec(source)) {
    depth += mark[0] === '/*' ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return source.length;
}

function readQuoted(source: string, at: number, quote: string, kind: 'string' | 'name'): Read {
  let end = source.indexOf(quote, at + 1);
  while (end >= 0 && source.charAt(end + 1) === quote) end = source.indexOf(quote, end + 2);
  if (end < 0) end = source.length;
  return {
    kind,
    text: source.slice(at + 1, end).replaceAll(quote + quote, quote),
    end: Math.min(source.length, end + 1),
  };
}

function endOr(found: number, fallback: number): number {
  return found < 0 ? Math.max(0, fallback) : found;
}
