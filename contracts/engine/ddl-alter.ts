/** What later statements change of what earlier ones made: migrations read one after the other. */
import type { ColumnDraft, State, TableDraft } from './ddl-draft.ts';
import { expressionText, identifier, qualifiedName, readType } from './ddl-reader.ts';
import type { Reader } from './ddl-reader.ts';
import { tokenise } from './ddl-tokens.ts';

export function alterColumn(reader: Reader, draft: TableDraft, column: ColumnDraft): void {
  if (reader.take('set', 'not', 'null') || reader.take('add', 'generated')) column.notNull = true;
  else if (reader.take('drop', 'not', 'null')) column.notNull = column.keyPosition > 0;
  else if (reader.take('set', 'default')) column.defaultText = expressionText(reader);
  else if (reader.take('drop', 'default')) column.defaultText = null;
  else if (reader.take('type') || reader.take('set', 'data', 'type'))
    draft.columns.set(column.name, { ...column, type: readType(reader) });
}

/** What stood on it goes with it. */
export function dropColumn(draft: TableDraft, name: string): void {
  draft.columns.delete(name);
  const without = <T>(list: T[], columnsOf: (item: T) => readonly string[]): void => {
    list.splice(0, list.length, ...list.filter((item) => !columnsOf(item).includes(name)));
  };
  without(draft.uniques, (columns) => columns);
  without(draft.foreignKeys, ({ columns }) => columns);
  without(draft.checks, ({ expression }) =>
    tokenise(expression).flatMap(({ kind, text }) => (kind === 'word' || kind === 'name' ? [text] : [])),
  );
}

/** RENAME TO other, RENAME [COLUMN] a TO b; constraints have no names that matter. */
export function rename(reader: Reader, draft: TableDraft, state: State): void {
  if (reader.take('to')) {
    const table = identifier(reader);
    state.tables.delete(`${draft.schema}.${draft.table}`);
    state.tables.set(`${draft.schema}.${table}`, { ...draft, table });
    return;
  }
  if (reader.take('constraint')) return;
  reader.take('column');
  const from = identifier(reader);
  if (!reader.take('to')) return;
  const to = identifier(reader);
  const swap = (name: string): string => (name === from ? to : name);
  const columns = [...draft.columns.values()].map((column) => ({ ...column, name: swap(column.name) }));
  draft.columns.clear();
  for (const column of columns) draft.columns.set(column.name, column);
  draft.uniques.splice(0, draft.uniques.length, ...draft.uniques.map((names) => names.map(swap)));
  const keys = draft.foreignKeys.map((key) => ({ ...key, columns: key.columns.map(swap) }));
  draft.foreignKeys.splice(0, draft.foreignKeys.length, ...keys);
  const checks = draft.checks.map((check) => ({ ...check, expression: renamed(check.expression, from, to) }));
  draft.checks.splice(0, draft.checks.length, ...checks);
}

function renamed(expression: string, from: string, to: string): string {
  let text = expression;
  for (const token of tokenise(expression).toReversed())
    if ((token.kind === 'word' || token.kind === 'name') && token.text === from)
      text = `${text.slice(0, token.start)}"${to.replaceAll('"', '""')}"${text.slice(token.end)}`;
  return text;
}

export function readDrop(reader: Reader, state: State): boolean {
  reader.take('if', 'exists');
  do state.tables.delete(qualifiedName(reader).join('.'));
  while (reader.take(','));
  return true;
}

/** ALTER TYPE … ADD VALUE 'x' [BEFORE | AFTER 'y'] */
export function readNewLabel(reader: Reader, state: State): boolean {
  const labels = state.enums.get(qualifiedName(reader).join('.'));
  if (labels === undefined || !reader.take('add', 'value')) return false;
  reader.take('if', 'not', 'exists');
  const label = reader.next()?.text ?? '';
  if (labels.includes(label)) return true;
  const before = reader.take('before');
  const at = before || reader.take('after') ? labels.indexOf(reader.next()?.text ?? '') : labels.length;
  labels.splice(before ? at : at + 1, 0, label);
  return true;
}
