/** Keys of parked events as canonical key text. */
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import type { KeyCell } from '../../ingest/key-cell.ts';
import { scanQuarantine } from '../../ingest/quarantine-scan.ts';
import type { ColumnShape, TableShape } from '../../log/event.ts';
import { frame } from './canonical-lake.ts';

/** `hash`: what the lake has for a key cell that is hashed behind the log; cells of other columns come back as they are. */
export async function parkedKeyTexts(
  quarantine: Snapshot | null,
  shape: TableShape,
  hash: KeyHash = (_column, cell) => cell,
): Promise<ReadonlySet<string>> {
  const texts = new Set<string>();
  if (quarantine === null) return texts;
  const columns = shape.columns
    .filter((column) => column.keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition);
  for await (const row of scanQuarantine(quarantine, { statuses: new Set(['parked', 'dropped']), withBytes: false })) {
    if (row.key !== null) texts.add(keyText(row.key, columns, hash));
  }
  return texts;
}

export type KeyHash = (column: ColumnShape, cell: string) => string;

function keyText(key: KeyCell, columns: readonly ColumnShape[], hash: KeyHash): string {
  // A table without key: the hash of the row.
  if (columns.length === 0) return frame(String(key));
  const only = columns[0];
  if (columns.length === 1 && only !== undefined) return frame(sourceText(String(key), only, hash));
  let text = '';
  let at = 0;
  const all = String(key);
  for (const column of columns) {
    const kind = all[at];
    if (kind === 's') {
      const colon = all.indexOf(':', at);
      const end = colon + 1 + Number(all.slice(at + 1, colon));
      text += frame(sourceText(all.slice(colon + 1, end), column, hash));
      at = end;
    } else if (kind === 'n') {
      const end = all.indexOf(';', at);
      text += frame(sourceText(all.slice(at + 1, end), column, hash));
      at = end + 1;
    } else {
      text += frame(kind ?? null);
      at += 1;
    }
  }
  return text;
}

/** A cell's wire form back to PostgreSQL's text. */
function sourceText(cell: string, column: ColumnShape, hash: KeyHash): string {
  if (column.replaced !== undefined) return hash(column, cell);
  const type = column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType;
  if (type.startsWith('timestamp')) return cell.replace('T', ' ').replace('Z', '+00');
  if (type === 'bytea') return Buffer.from(cell, 'base64').toString('hex');
  return cell;
}
