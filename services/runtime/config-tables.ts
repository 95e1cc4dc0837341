/** `source.tables` of a sluice.yaml, changed by one table: every other line and comment stays as it was. */
import { isSeq, parseDocument } from 'yaml';
import { ConfigError } from './errors.ts';

/** Globs that match one table each. */
export interface TablesChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

/** `wants`: whether the list, as it stands then, takes a table. @throws ConfigError when the list is no plain list in this file */
export function changeTables(
  text: string,
  file: string,
  { add, remove }: TablesChange,
  wants: (globs: readonly string[], table: string) => boolean,
): string {
  const document = parseDocument(text);
  const node = document.getIn(['source', 'tables']) ?? null;
  if (document.errors.length > 0 || (node !== null && !isSeq(node)))
    throw new ConfigError(
      `source.tables in ${file} cannot be changed here`,
      `change it by hand: add ${JSON.stringify(add)}, leave out ${JSON.stringify(remove)}`,
    );
  const before = node === null ? ['public.*'] : node.items.map((item) => String(item));
  let globs = before;
  for (const table of add) {
    globs = globs.filter((glob) => glob !== `!${table}`);
    if (!wants(globs, table)) globs = [...globs, table];
  }
  for (const table of remove) {
    globs = globs.filter((glob) => glob !== table);
    if (wants(globs, table)) globs = [...globs, `!${table}`];
  }
  if (globs.length === before.length && globs.every((glob, i) => glob === before[i])) return text;
  const list = document.createNode([...globs], { flow: node === null || node.flow === true });
  if (node?.comment != null) list.comment = node.comment;
  if (node?.commentBefore != null) list.commentBefore = node.commentBefore;
  document.setIn(['source', 'tables'], list);
  return document.toString({ lineWidth: 0 });
}
