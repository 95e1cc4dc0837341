/** Contract patterns are RE2. Which of them another engine of regular expressions reads in the same sense. */

/** Classes by name, inline flags, named groups, octal and `\A \z \Q \C`: spelled otherwise, or unknown, outside RE2. */
const RE2_ONLY = /\[\[:|\(\?[a-zA-Z-]*[a-zA-Z][:)]|\(\?P?<|\\[AzQECaxp0P]/;

export function readByEcma(pattern: string): boolean {
  if (RE2_ONLY.test(pattern)) return false;
  try {
    // As JSON Schema asks for it: Unicode mode.
    return new RegExp(pattern, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}

/** PostgreSQL's advanced regular expressions (docs, 9.7.3); `\b` is a backspace there, and `\B` a backslash. */
export function readByPostgres(pattern: string): boolean {
  return !RE2_ONLY.test(pattern) && !/\\[bBvh]|\*\*\*|[*+?}]\?\?/.test(pattern) && !pattern.startsWith('***');
}

/** Java's Pattern, which Spark's RLIKE uses, reads RE2's common part alike. */
export function readByJava(pattern: string): boolean {
  return !/\[\[:|\(\?P<|\\[C]/.test(pattern);
}
