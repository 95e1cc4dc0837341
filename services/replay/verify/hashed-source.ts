/**
 * The source's rows with hashed columns, for verify: PostgreSQL gives the clear text and the hash is made here, since its key
 * must not stand in a statement that the server may log. Rows pass one by one; nothing but sums is kept of them.
 */
import type { Hasher } from '../../../contracts/engine/privacy.ts';
import { clearText } from '../../log/cell-privacy.ts';
import type { ColumnShape } from '../../log/event.ts';
import type { SourceSession } from '../../reader/source.ts';
import { quoteIdent } from '../../reader/sql-text.ts';
import { frame } from './canonical-lake.ts';
import { canonicalCell, outputText } from './canonical-source.ts';

export function isHashed(column: ColumnShape): boolean {
  return column.replaced?.startsWith('hash:') === true;
}

export interface HashedRows {
  /** Canonical texts of each row of `from` (what stands behind FROM in a SELECT). */
  each(from: string, visit: (key: string, text: string) => void): Promise<void>;
}

export function hashedRows(
  session: SourceSession,
  columns: readonly ColumnShape[],
  asText: ReadonlySet<string>,
  hasher: Hasher,
): HashedRows {
  const keyPlaces = columns
    .map(({ keyPosition }, index) => ({ keyPosition, index }))
    .filter(({ keyPosition }) => keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map(({ index }) => index);
  const clear = columns.map((column) => (isHashed(column) ? clearText(column) : null));
  const list = columns
    .map((column, index) =>
      clear[index] === null ? canonicalCell(column, asText.has(column.name)) : outputText(quoteIdent(column.name)),
    )
    .join(', ');
  const cells = columns.map(() => '');
  const take = (bytes: Buffer, start: number): void => {
    let at = start + 2;
    for (let i = 0; i < columns.length; i += 1) {
      const length = bytes.readInt32BE(at);
      at += 4;
      const textOf = clear[i] ?? null;
      if (length < 0) {
        cells[i] = '~';
        continue;
      }
      cells[i] =
        textOf === null ? bytes.toString('utf8', at, at + length) : frame(hasher(textOf(bytes, at, at + length)));
      at += length;
    }
  };
  return {
    async each(from, visit) {
      await session.rows(`select ${list} from ${from}`, (bytes, start) => {
        take(bytes, start);
        let key = '';
        for (const place of keyPlaces) key += cells[place];
        visit(key, cells.join(''));
      });
    },
  };
}
