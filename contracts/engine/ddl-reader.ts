/** A cursor over a statement's tokens, and the small parts that all DDL shares: names, lists, parentheses. */
import type { CatalogForeignKey } from './catalog.ts';
import type { Token } from './ddl-tokens.ts';

export interface Reader {
  readonly source: string;
  peek(ahead?: number): Token | undefined;
  next(): Token | undefined;
  /** Takes these words when they come next. */
  take(...words: readonly string[]): boolean;
  is(...words: readonly string[]): boolean;
}

export function createReader(source: string, tokens: readonly Token[]): Reader {
  let at = 0;
  const is = (...words: readonly string[]): boolean =>
    words.every((word, index) => tokens[at + index]?.text === word && tokens[at + index]?.kind !== 'string');
  return {
    source,
    peek: (ahead = 0) => tokens[at + ahead],
    next: () => tokens[at++],
    is,
    take(...words) {
      if (!is(...words)) return false;
      at += words.length;
      return true;
    },
  };
}

export function identifier(reader: Reader): string {
  return reader.next()?.text ?? '';
}

export function nameParts(reader: Reader): string[] {
  const parts = [identifier(reader)];
  while (reader.take('.')) parts.push(identifier(reader));
  return parts;
}

export function qualifiedName(reader: Reader): [string, string] {
  const parts = nameParts(reader);
  return [parts.at(-2) ?? 'public', parts.at(-1) ?? ''];
}

export function nameList(reader: Reader): string[] {
  const names: string[] = [];
  if (!reader.take('(')) return names;
  do {
    names.push(identifier(reader));
    skipTo(reader, [',', ')']);
  } while (reader.take(','));
  reader.take(')');
  return names;
}

export function reference(reader: Reader, columns: readonly string[]): CatalogForeignKey {
  const [, table] = qualifiedName(reader);
  return { columns, table, referenced: nameList(reader) };
}

export function parenthesised(reader: Reader): string {
  const start = reader.peek()?.start ?? 0;
  const end = reader.is('(') ? skipParentheses(reader) : start;
  return reader.source.slice(start + 1, Math.max(start + 1, end - 1)).trim();
}

/** Passes `( … )` and gives its end in the source. */
export function skipParentheses(reader: Reader): number {
  let depth = 0;
  let end = reader.peek()?.end ?? 0;
  do {
    const token = reader.next();
    if (token === undefined) return end;
    end = token.end;
    if (token.kind === 'mark') depth += token.text === '(' ? 1 : token.text === ')' ? -1 : 0;
  } while (depth > 0);
  return end;
}

export function skipTo(reader: Reader, stops: readonly string[]): void {
  for (let token = reader.peek(); token !== undefined; token = reader.peek()) {
    if (token.kind === 'mark' && stops.includes(token.text)) return;
    if (token.text === '(') skipParentheses(reader);
    else reader.next();
  }
}

/** A type's words; arguments and [] belong to it. */
export function readType(reader: Reader): string {
  return textBeforeConstraint(reader, false).replaceAll(/\s+/g, ' ').trim();
}

/** The text of an expression, whatever its first word is. */
export function expressionText(reader: Reader): string {
  return textBeforeConstraint(reader, true).trim();
}

/** Up to a constraint's first word, a comma or the closing parenthesis at the same level. */
function textBeforeConstraint(reader: Reader, anyFirstWord: boolean): string {
  const start = reader.peek()?.start ?? 0;
  let end = start;
  for (;;) {
    const token = reader.peek();
    if (token === undefined || token.text === ',' || token.text === ')') break;
    const first = anyFirstWord && end === start;
    if (token.kind === 'word' && !first && COLUMN_WORDS.has(token.text)) break;
    end = token.end;
    if (token.text === '(') end = skipParentheses(reader);
    else reader.next();
  }
  return reader.source.slice(start, end);
}
const COLUMN_WORDS: ReadonlySet<string> = new Set([
  'not',
  'null',
  'default',
  'primary',
  'unique',
  'check',
  'references',
  'constraint',
  'collate',
  'generated',
  'storage',
  'compression',
  'deferrable',
  'initially',
  'using',
]);
