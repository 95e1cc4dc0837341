/** Where in the file a character of a scalar's value stands: for errors inside CEL and SQL texts. */
import type { TextPosition } from './finding.ts';

/**
 * `start` is the place of the scalar, `offset` counts characters of its value. Exact for plain and quoted scalars on one line
 * and for literal blocks (`|`); for folded and escaped ones the start of the scalar is the best that can be said.
 */
export function positionInScalar(text: string, start: TextPosition, offset: number): TextPosition {
  const lines = text.split('\n');
  const line = lines[start.line - 1] ?? '';
  const rest = line.slice(start.column - 1);
  const style = rest.charAt(0);
  if (style === '|') return positionInBlock(lines, start, offset);
  if (style === '>' || (style === '"' && rest.includes('\\'))) return start;
  if (style === '"') return onLine(start, rest, 1 + offset);
  // In single quotes, a doubled quote is one character of the value.
  if (style === "'") return onLine(start, rest, 1 + offset + doubledBefore(rest.slice(1), offset));
  return onLine(start, rest, offset);
}

function onLine(start: TextPosition, rest: string, distance: number): TextPosition {
  return distance <= rest.length ? { line: start.line, column: start.column + distance } : start;
}

function doubledBefore(quoted: string, offset: number): number {
  let doubled = 0;
  for (let value = 0, at = 0; value < offset && at < quoted.length; value++, at++) {
    if (quoted.startsWith("''", at)) {
      doubled++;
      at++;
    }
  }
  return doubled;
}

function positionInBlock(lines: readonly string[], start: TextPosition, offset: number): TextPosition {
  const indent = (lines[start.line] ?? '').search(/\S/);
  if (indent < 0) return start;
  let left = offset;
  for (let index = start.line; index < lines.length; index++) {
    const length = Math.max(0, (lines[index] ?? '').length - indent);
    if (left <= length) return { line: index + 1, column: indent + 1 + left };
    left -= length + 1;
  }
  return start;
}
