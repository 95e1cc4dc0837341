/**
 * CREATE TABLE and its kin (CREATE TYPE … AS ENUM, CREATE DOMAIN, ALTER TABLE … ADD, COMMENT ON), as people write them and as
 * pg_dump does, to catalog tables for `inferContract`. Tolerant: statements it does not know are passed over and listed.
 */
import type { CatalogCheck, CatalogColumn, CatalogForeignKey, CatalogTable } from './catalog.ts';
import { alterColumn, dropColumn, readDrop, readNewLabel, rename } from './ddl-alter.ts';
import type { ColumnDraft, State, TableDraft } from './ddl-draft.ts';
import {
  createReader,
  expressionText,
  identifier,
  nameList,
  nameParts,
  parenthesised,
  qualifiedName,
  readType,
  reference,
  skipParentheses,
  skipTo,
} from './ddl-reader.ts';
import type { Reader } from './ddl-reader.ts';
import { tokenise } from './ddl-tokens.ts';
import type { Token } from './ddl-tokens.ts';
import { parsePgType } from './pg-type.ts';

export interface DdlResult {
  readonly tables: readonly CatalogTable[];
  /** First words of statements that were passed over, with their line. */
  readonly skipped: readonly { readonly line: number; readonly statement: string }[];
}

export function readDdl(source: string): DdlResult {
  const state: State = { source, passed: [], tables: new Map(), enums: new Map(), domains: new Map() };
  for (const tokens of statements(tokenise(source))) {
    const reader = createReader(source, tokens);
    if (readStatement(reader, state)) continue;
    const first = tokens[0];
    if (first === undefined || QUIET.has(first.text)) continue;
    const statement = tokens
      .slice(0, 4)
      .map((token) => token.text)
      .join(' ');
    state.passed.push({ at: first.start, statement });
  }
  const skipped = state.passed.map(({ at, statement }) => ({
    line: source.slice(0, at).split('\n').length,
    statement,
  }));
  return { tables: [...state.tables.values()].map((table) => finish(table, state)), skipped };
}
/** They say nothing about the shape of a table. */
const QUIET: ReadonlySet<string> = new Set([
  'set',
  'select',
  'insert',
  'copy',
  'grant',
  'revoke',
  'begin',
  'commit',
  'drop',
  'analyze',
  'update',
  'delete',
  'truncate',
]);

function statements(tokens: readonly Token[]): Token[][] {
  const all: Token[][] = [];
  let current: Token[] = [];
  for (const token of tokens) {
    if (token.kind === 'mark' && token.text === ';') {
      if (current.length > 0) all.push(current);
      current = [];
    } else current.push(token);
  }
  if (current.length > 0) all.push(current);
  return all;
}

function readStatement(reader: Reader, state: State): boolean {
  if (reader.take('create')) {
    for (const word of ['or', 'replace', 'global', 'local', 'temporary', 'temp', 'unlogged']) reader.take(word);
    if (reader.take('table')) return readTable(reader, state);
    if (reader.take('type')) return readEnum(reader, state);
    if (reader.take('domain')) return readDomain(reader, state);
    if (reader.take('unique', 'index')) return readUniqueIndex(reader, state);
    // They hold no columns; a table names its schema itself.
    return reader.take('schema') || reader.take('extension');
  }
  if (reader.take('alter', 'table')) return readAlter(reader, state);
  if (reader.take('alter', 'type')) return readNewLabel(reader, state);
  if (reader.take('drop', 'table')) return readDrop(reader, state);
  if (reader.take('comment', 'on')) return readComment(reader, state);
  return false;
}

function readTable(reader: Reader, state: State): boolean {
  reader.take('if', 'not', 'exists');
  const [schema, table] = qualifiedName(reader);
  if (table === '' || !reader.take('(')) return false;
  const draft: TableDraft = {
    schema,
    table,
    columns: new Map(),
    uniques: [],
    checks: [],
    foreignKeys: [],
    comment: null,
  };
  do {
    if (reader.is(')')) break;
    if (reader.is('like')) passOver(reader, state);
    else if (!readTableConstraint(reader, draft)) readColumn(reader, draft);
    skipTo(reader, [',', ')']);
  } while (reader.take(','));
  reader.take(')');
  if (reader.is('inherits')) passOver(reader, state);
  state.tables.set(`${schema}.${table}`, draft);
  return true;
}

/** Columns that come from another table are not in this text. */
function passOver(reader: Reader, state: State): void {
  const [first, second] = [reader.next(), reader.peek()];
  const of = second?.text === '(' ? reader.peek(1) : second;
  state.passed.push({ at: first?.start ?? 0, statement: `${first?.text ?? ''} ${of?.text ?? ''}` });
}

const CONSTRAINT_WORDS = ['constraint', 'primary', 'unique', 'check', 'foreign', 'exclude'];

function readTableConstraint(reader: Reader, draft: TableDraft): boolean {
  const first = reader.peek();
  if (first?.kind !== 'word' || !CONSTRAINT_WORDS.includes(first.text)) return false;
  const name = reader.take('constraint') ? identifier(reader) : `${draft.table}_check_${draft.checks.length + 1}`;
  if (reader.take('primary', 'key')) setKey(draft, nameList(reader));
  else if (reader.take('unique')) {
    for (const word of ['nulls', 'not', 'distinct']) reader.take(word);
    draft.uniques.push(nameList(reader));
  } else if (reader.take('check')) draft.checks.push({ name, expression: parenthesised(reader) });
  else if (reader.take('foreign', 'key')) {
    const columns = nameList(reader);
    if (reader.take('references')) draft.foreignKeys.push(reference(reader, columns));
  }
  return true;
}

function readColumn(reader: Reader, draft: TableDraft): void {
  const name = identifier(reader);
  const type = readType(reader);
  const column: ColumnDraft = {
    name,
    type,
    notNull: /^(?:big|small)?serial\d?$/i.test(type),
    keyPosition: 0,
    defaultText: null,
    comment: null,
  };
  draft.columns.set(name, column);
  let constraint = `${draft.table}_${name}_check`;
  for (;;) {
    if (reader.take('not', 'null')) column.notNull = true;
    else if (reader.take('null')) continue;
    else if (reader.take('constraint')) constraint = identifier(reader);
    else if (reader.take('primary', 'key')) setKey(draft, [name]);
    else if (reader.take('unique')) draft.uniques.push([name]);
    else if (reader.take('check')) draft.checks.push({ name: constraint, expression: parenthesised(reader) });
    else if (reader.take('references')) draft.foreignKeys.push(reference(reader, [name]));
    else if (reader.take('generated', 'by', 'default')) continue;
    else if (reader.take('default')) column.defaultText = expressionText(reader);
    else if (reader.take('collate')) qualifiedName(reader);
    else if (reader.take('on')) skipAction(reader);
    else if (reader.take('as', 'identity')) column.notNull = true;
    else if (reader.is('(')) skipParentheses(reader);
    // generated, storage, deferrable and whatever comes: more may stand behind them.
    else if (reader.peek() === undefined || reader.is(',') || reader.is(')')) return;
    else reader.next();
  }
}

/** ON DELETE SET NULL: no NULL and no DEFAULT of the column's own. */
function skipAction(reader: Reader): void {
  reader.next();
  if (reader.take('set')) reader.next();
}

function readEnum(reader: Reader, state: State): boolean {
  const name = qualifiedName(reader);
  if (!reader.take('as', 'enum', '(')) return false;
  const labels: string[] = [];
  for (let token = reader.next(); token !== undefined && token.text !== ')'; token = reader.next())
    if (token.kind === 'string') labels.push(token.text);
  state.enums.set(name.join('.'), labels);
  return true;
}

function readDomain(reader: Reader, state: State): boolean {
  const name = qualifiedName(reader);
  reader.take('as');
  const base = readType(reader);
  let notNull = false;
  let check: string | null = null;
  while (reader.peek() !== undefined) {
    if (reader.take('not', 'null')) notNull = true;
    else if (reader.take('check')) check = parenthesised(reader);
    else if (reader.take('default')) expressionText(reader);
    else reader.next();
  }
  state.domains.set(name.join('.'), { base, notNull, check });
  return true;
}

function readUniqueIndex(reader: Reader, state: State): boolean {
  while (reader.peek() !== undefined && !reader.is('on')) reader.next();
  reader.next();
  reader.take('only');
  const draft = state.tables.get(qualifiedName(reader).join('.'));
  if (reader.take('using')) reader.next();
  const columns = nameList(reader);
  // A partial or an expression index says nothing about the whole table's columns.
  while (reader.peek() !== undefined) if (reader.next()?.text === 'where') return true;
  if (draft !== undefined && columns.every((column) => draft.columns.has(column))) draft.uniques.push(columns);
  return true;
}

function readAlter(reader: Reader, state: State): boolean {
  reader.take('if', 'exists');
  reader.take('only');
  const draft = state.tables.get(qualifiedName(reader).join('.'));
  if (draft === undefined) return false;
  let understood = false;
  do {
    if (reader.take('add')) {
      if (readTableConstraint(reader, draft)) understood = true;
      else {
        reader.take('column');
        reader.take('if', 'not', 'exists');
        readColumn(reader, draft);
        understood = true;
      }
    } else if (reader.take('alter')) {
      reader.take('column');
      const column = draft.columns.get(identifier(reader));
      if (column !== undefined) alterColumn(reader, draft, column);
      understood = true;
    } else if (reader.take('drop', 'column')) {
      reader.take('if', 'exists');
      dropColumn(draft, identifier(reader));
      understood = true;
    } else if (reader.take('rename')) {
      rename(reader, draft, state);
      understood = true;
    }
    skipTo(reader, [',']);
  } while (reader.take(','));
  return understood || reader.is('owner');
}

function readComment(reader: Reader, state: State): boolean {
  const onTable = reader.take('table');
  if (!onTable && !reader.take('column')) return true;
  const parts = nameParts(reader);
  const column = onTable ? null : (parts.pop() ?? null);
  const draft = state.tables.get(`${parts.length > 1 ? parts.at(-2) : 'public'}.${parts.at(-1) ?? ''}`);
  if (draft === undefined || !reader.take('is')) return true;
  const token = reader.next();
  const text = token?.kind === 'string' ? token.text : null;
  if (column === null) draft.comment = text;
  else {
    const target = draft.columns.get(column);
    if (target !== undefined) target.comment = text;
  }
  return true;
}

function setKey(draft: TableDraft, names: readonly string[]): void {
  for (const [index, name] of names.entries()) {
    const column = draft.columns.get(name);
    if (column === undefined) continue;
    column.keyPosition = index + 1;
    column.notNull = true;
  }
}

// ---- the drafts' types, resolved ----

function finish(draft: TableDraft, state: State): CatalogTable {
  const checks = [...draft.checks];
  const columns = [...draft.columns.values()].map((column) => finishColumn(column, draft, state, checks));
  return {
    schema: draft.schema,
    table: draft.table,
    columns,
    comment: draft.comment,
    uniques: draft.uniques,
    checks,
    foreignKeys: draft.foreignKeys.map((key) => ({ ...key, referenced: referencedBy(key, state) })),
  };
}

/** `REFERENCES other` means its key. */
function referencedBy({ table, referenced }: CatalogForeignKey, state: State): readonly string[] {
  if (referenced.length > 0) return referenced;
  const other = [...state.tables.values()].find((candidate) => candidate.table === table);
  return [...(other?.columns.values() ?? [])]
    .filter(({ keyPosition }) => keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map(({ name }) => name);
}

function finishColumn(column: ColumnDraft, draft: TableDraft, state: State, checks: CatalogCheck[]): CatalogColumn {
  const type = parsePgType(column.type);
  const base = {
    name: column.name,
    pgType: column.type,
    notNull: column.notNull,
    keyPosition: column.keyPosition,
    defaultText: column.defaultText,
    comment: column.comment,
  };
  if (type.array)
    return {
      ...base,
      kind: 'array',
      baseType: column.type.replace(/(?:\s*\[\d*\])+$|\s+array(?:\s*\[\d*\])?$/i, ''),
      enumLabels: null,
    };
  const name = column.type.replaceAll('"', '').split('.');
  const full = `${name.at(-2) ?? draft.schema}.${name.at(-1) ?? ''}`;
  const labels = state.enums.get(full) ?? state.enums.get(`public.${name.at(-1) ?? ''}`);
  if (labels !== undefined) return { ...base, kind: 'enum', baseType: null, enumLabels: labels };
  const domain = state.domains.get(full) ?? state.domains.get(`public.${name.at(-1) ?? ''}`);
  if (domain === undefined) return { ...base, kind: 'base', baseType: null, enumLabels: null };
  if (domain.check !== null)
    checks.push({
      name: `${column.name}_domain`,
      expression: domain.check.replaceAll(/\bvalue\b/gi, `"${column.name}"`),
    });
  return {
    ...base,
    kind: 'domain',
    baseType: domain.base,
    enumLabels: null,
    notNull: column.notNull || domain.notNull,
  };
}
