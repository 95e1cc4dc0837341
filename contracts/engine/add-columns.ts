/**
 * New columns of a live table into a contract's text. Text is only added: what a person wrote, comments and digits too,
 * stays byte for byte.
 */
import { Document, isMap, isNode, isSeq, parseDocument, visit } from 'yaml';
import type { YAMLMap, YAMLSeq } from 'yaml';

import type { CatalogTable } from './catalog.ts';
import { selectTable } from './compile.ts';
import { freshId, inferContract } from './infer.ts';
import type { Contract, TableContract } from './model.ts';
import { ContractError, parseContract } from './parse.ts';

/**
 * The text with the columns of `table` that it lacks, as `infer` writes them, at the end of the list; not `required`, since
 * rows from before the column have no value for it. The same text when it lacks none. Throws ContractError for an invalid text.
 */
export function addColumns(text: string, file: string, table: CatalogTable): string {
  const { contract, findings } = parseContract(text, file);
  if (contract === null) throw new ContractError(findings);
  const entry = selectTable(contract, table);
  const known = new Set(entry.columns.map((column) => column.name));
  const missing = table.columns.filter((column) => !known.has(column.name));
  if (missing.length === 0) return text;
  const added = columnNodes(
    { ...table, columns: missing.map((column) => ({ ...column, notNull: false, keyPosition: 0 })) },
    entry,
  );
  const list = parseDocument(text).getIn([...entry.path, 'properties']);
  // Without any column the contract was refused by lint; a list that is missing has no place to add to.
  if (!isSeq(list)) throw noList(contract, entry);
  return list.flow === true ? insertInline(text, list, added) : insertLines(text, list, added);
}

/** `[{…}]` → `[{…}, {…}]` */
function insertInline(text: string, list: YAMLSeq, added: readonly YAMLMap[]): string {
  const last = rangeOf(list.items.at(-1));
  // Right after the last entry: a comment or a comma that follows it stays where it is.
  const offset = last?.[1] ?? (list.range?.[0] ?? 0) + 1;
  const items = added.map((item) => {
    visit(item, { Collection: (_key, node) => void (node.flow = true) });
    return write(item).trimEnd();
  });
  return `${text.slice(0, offset)}${last === null ? '' : ', '}${items.join(', ')}${text.slice(offset)}`;
}

function insertLines(text: string, list: YAMLSeq, added: readonly YAMLMap[]): string {
  const place = insertionPlace(text, list);
  const indent = ' '.repeat(place.indent);
  const items = added.map((item) =>
    write(item)
      .trimEnd()
      .split('\n')
      .map((line, index) => `${indent}${index === 0 ? '- ' : '  '}${line}`)
      .join('\n'),
  );
  const before = text.slice(0, place.offset);
  const glue = before === '' || before.endsWith('\n') ? '' : '\n';
  return `${before}${glue}${items.join('\n')}\n${text.slice(place.offset)}`;
}

function write(item: YAMLMap): string {
  const document = new Document();
  document.contents = item;
  return document.toString({ lineWidth: 0, flowCollectionPadding: false, singleQuote: true });
}

/** The columns as `infer` writes them, under ids that are free. */
function columnNodes(table: CatalogTable, entry: TableContract): YAMLMap[] {
  const taken = new Set([
    entry.id ?? '',
    ...entry.columns.map((column) => column.id ?? ''),
    ...entry.rules.map((rule) => rule.id),
  ]);
  const inferred = inferContract({ ...table, uniques: [], checks: [], foreignKeys: [] }, { name: 'added' }).text;
  const list = parseDocument(inferred).getIn(['schema', 0, 'properties']);
  if (!isSeq(list)) return [];
  return list.items.flatMap((item) => {
    if (!isMap(item)) return [];
    for (const owner of [item, ...ruleNodes(item.get('quality'))])
      if (owner.has('id')) owner.set('id', freshId(String(owner.get('id')), 'added', taken));
    return [item];
  });
}

function ruleNodes(node: unknown): YAMLMap[] {
  return isSeq(node) ? node.items.filter((item) => isMap(item)) : [];
}

/** Of a column written out, or of one that stands for another (`*total`). */
const rangeOf = (node: unknown): readonly [number, number, number] | null => (isNode(node) ? node.range : null) ?? null;

interface Place {
  readonly offset: number;
  /** Columns before the dash. */
  readonly indent: number;
}

/** After the last column's last line. */
function insertionPlace(text: string, list: YAMLSeq): Place {
  // The list begins with its first dash; an entry may begin lines below it, behind an anchor.
  const dash = list.range?.[0] ?? 0;
  const indent = dash - (text.lastIndexOf('\n', dash - 1) + 1);
  const end = rangeOf(list.items.at(-1))?.[1] ?? text.length;
  // The value's end may stand at the line break or before a comment on the same line.
  const lineEnd = text.charAt(end - 1) === '\n' ? end : text.indexOf('\n', end) + 1 || text.length;
  return { offset: lineEnd, indent };
}

function noList(contract: Contract, entry: TableContract): ContractError {
  return new ContractError([
    {
      level: 'error',
      code: 'NO_COLUMNS',
      message: `table ${entry.name} has no 'properties' list to add columns to`,
      file: contract.source.file,
      ...contract.source.locate(entry.path),
      subject: entry.name,
      hint: 'contracts infer writes one',
    },
  ]);
}
