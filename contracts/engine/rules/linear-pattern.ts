/**
 * Patterns in linear time on RE2JS. The standard's patterns are ECMA-262 searches; what a linear engine cannot do (lookaround,
 * back-references) is refused when the contract is compiled, never at the first bad row.
 */
import { RE2JS } from 're2js';

export type PatternTest = (text: string) => boolean;

export class PatternError extends Error {
  readonly code = 'PATTERN_REFUSED';
}

/** RE2's own limit is on program size; this one keeps a pasted file out. */
const PATTERN_LENGTH_MAX = 2000;
const PROGRAM_SIZE_MAX = 10_000;

/** A search, not a full match, as JSON Schema and ECMA-262 `test` do it. Throws PatternError with the reason. */
export function compilePattern(pattern: string): PatternTest {
  if (pattern.length > PATTERN_LENGTH_MAX)
    throw new PatternError(`the pattern is longer than ${PATTERN_LENGTH_MAX} characters`);
  if (/\(\?(?:[=!]|<[=!])/.test(pattern))
    throw new PatternError('lookahead and lookbehind are not possible in linear time');
  if (/\\(?:[1-9]|k<)/.test(pattern.replaceAll('\\\\', '')))
    throw new PatternError('a back-reference is not possible in linear time');
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
  } catch (cause) {
    throw new PatternError(`not a regular expression: ${cause instanceof Error ? cause.message : 'unknown reason'}`, {
      cause,
    });
  }
  if (compiled.programSize() > PROGRAM_SIZE_MAX)
    throw new PatternError('the pattern is too large; use smaller repetition counts');
  return (text) => compiled.test(text);
}
