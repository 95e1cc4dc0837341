/**
 * A user's SQL condition, before it is put into a query between parentheses: one expression and nothing else. The sessions
 * that run it are read-only; this keeps a stray `;` or `)` from ending the query that carries it.
 */
import { ConfigError } from '../runtime/errors.ts';

/** Gives the condition back. @throws ConfigError */
export function requireCondition(sql: string): string {
  let depth = 0;
  for (let at = 0; at < sql.length; at++) {
    const here = sql[at];
    if (here === "'" || here === '"') at = closingQuote(sql, at, here);
    else if (here === '(') depth++;
    else if (here === ')' && --depth < 0) throw refused('a parenthesis is closed that was not opened');
    else if (here === ';') throw refused('it holds a ;');
    else if (sql.startsWith('--', at) || sql.startsWith('/*', at)) throw refused('it holds a comment');
    else if (here === '$' && /^\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/u.test(sql.slice(at))) throw refused('it quotes by $');
    else if (here === '\0') throw refused('it holds a NUL');
  }
  if (depth > 0) throw refused('a parenthesis is not closed');
  if (sql.trim() === '') throw refused('it is empty');
  return sql;
}

/** Index of the closing quote; a doubled one stands for itself. */
function closingQuote(sql: string, from: number, quote: string): number {
  const backslashes = quote === "'" && /(?:^|[^\p{L}\p{N}_$])[eE]$/u.test(sql.slice(0, from));
  for (let at = from + 1; at < sql.length; at++) {
    if (backslashes && sql[at] === '\\') at++;
    else if (sql[at] === quote) {
      if (sql[at + 1] !== quote) return at;
      at++;
    }
  }
  throw refused('a quote is not closed');
}

function refused(why: string): ConfigError {
  return new ConfigError(
    `the condition is no single SQL expression: ${why}`,
    'give what may stand behind WHERE, such as "created_at >= date \'2026-01-01\'"',
  );
}
