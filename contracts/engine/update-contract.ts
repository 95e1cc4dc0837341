/**
 * A contract's text brought up to date with what was inferred, by edits of the text itself: comments, order, spelling and
 * everything that a person wrote stay as they are, to the byte. What only a person can decide is noted, not done.
 */
import { isMap, isPair, isScalar, isSeq, parseDocument } from 'yaml';
import type { Node as YamlNode, Scalar, YAMLMap, YAMLSeq } from 'yaml';

import { freshId } from './infer.ts';
import type { InferResult } from './infer.ts';
import type { Column, Contract, TableContract } from './model.ts';
import { canonicalPgType } from './pg-type.ts';

export interface UpdateResult {
  readonly text: string;
  /** One line each: what was changed in the text. */
  readonly changes: readonly string[];
  /** What differs and was left alone. */
  readonly left: readonly string[];
}

interface Edit {
  readonly at: number;
  readonly length: number;
  readonly text: string;
}

interface Session {
  readonly text: string;
  readonly edits: Edit[];
  readonly changes: string[];
  readonly left: string[];
}

/** @param current parsed from `text`; `table` is its entry that `inferred` is about */
export function updateContract(
  text: string,
  current: Contract,
  table: TableContract,
  inferred: InferResult,
): UpdateResult {
  const session: Session = { text, edits: [], changes: [], left: [] };
  const document = parseDocument(text, { version: '1.2', intAsBigInt: true });
  const list = document.getIn([...table.path, 'properties'], true);
  const [fresh] = inferred.contract.tables;
  if (!isSeq(list) || fresh === undefined) return { text, changes: [], left: ['the table has no list of properties'] };
  const ids = new Set(current.tables.flatMap((other) => other.columns.flatMap(({ id }) => (id === null ? [] : [id]))));
  for (const [index, column] of table.columns.entries()) {
    const map = list.items[index];
    const live = fresh.columns.find(({ name }) => name === (column.physicalName ?? column.name));
    if (!isMap(map)) {
      session.left.push(`${column.name} stands for another entry (an alias), and was not looked at`);
      continue;
    }
    if (column.id === null) addId(session, map, column, index, ids);
    if (live === undefined) session.left.push(`${column.name} is no longer there: deprecate it or take it out`);
    else updateColumn(session, map, column, live);
  }
  for (const column of fresh.columns)
    if (!table.columns.some((known) => (known.physicalName ?? known.name) === column.name))
      appendColumn(session, list, column, inferred);
  return { text: applied(session), changes: session.changes, left: session.left };
}

function addId(session: Session, map: YAMLMap, column: Column, index: number, ids: Set<string>): void {
  const id = freshId(column.name, `c${index + 1}`, ids);
  setKey(session, map, 'id', id);
  session.changes.push(`${column.name}: id ${id}`);
}

function updateColumn(session: Session, map: YAMLMap, column: Column, live: Column): void {
  const [ours, theirs] = [column.physicalTypes.postgres ?? column.physicalType, live.physicalType];
  if (theirs !== null && (ours === null || canonicalPgType(ours) !== canonicalPgType(theirs))) {
    setKey(session, map, 'physicalType', quoted(theirs));
    if (live.logicalType !== null && live.logicalType !== column.logicalType)
      setKey(session, map, 'logicalType', live.logicalType);
    updateOptions(session, map, live);
    session.changes.push(`${column.name}: ${ours ?? 'no type'} -> ${theirs}`);
  }
  if (live.required && !column.required) {
    if (map.has('required')) session.left.push(`${column.name} is NOT NULL, the contract says it is not required`);
    else {
      setKey(session, map, 'required', 'true');
      session.changes.push(`${column.name}: required`);
    }
  } else if (!live.required && column.required && column.keyPosition === 0)
    session.left.push(`${column.name} is nullable, the contract requires it`);
  if (live.keyPosition > 0 && column.keyPosition === 0) {
    setKey(session, map, 'primaryKey', 'true');
    setKey(session, map, 'primaryKeyPosition', String(live.keyPosition));
    session.changes.push(`${column.name}: key ${live.keyPosition}`);
  } else if (live.keyPosition !== column.keyPosition)
    session.left.push(`${column.name} has key position ${live.keyPosition}, the contract says ${column.keyPosition}`);
  updateLabels(session, map, column, live);
}

/** Only what belongs to the type; bounds and patterns are a person's. */
function updateOptions(session: Session, map: YAMLMap, live: Column): void {
  const options = map.get('logicalTypeOptions', true) as YamlNode | undefined;
  const wanted = (['format', 'timezone', 'maxLength'] as const).flatMap((name): [string, string][] => {
    const value = live.options[name];
    return value === undefined ? [] : [[name, String(value)]];
  });
  if (isMap(options)) for (const [name, value] of wanted) setKey(session, options, name, value);
  else if (wanted.length > 0)
    setKey(session, map, 'logicalTypeOptions', `{${wanted.map(([name, value]) => `${name}: ${value}`).join(', ')}}`);
}

function updateLabels(session: Session, map: YAMLMap, column: Column, live: Column): void {
  if (live.allowedValues === null || column.allowedValues === null) return;
  const known = new Set(column.allowedValues.map(String));
  const added = live.allowedValues.map(String).filter((label) => !known.has(label));
  if (added.length === 0) return;
  const list = validValues(map);
  const last = list?.items.at(-1);
  if (list === null || !isScalar(last) || last.range == null) {
    session.left.push(`${column.name} has new labels: ${added.join(', ')}`);
    return;
  }
  const inline = list.flow === true;
  // In block style behind the line, so that its comment stays with its own label.
  const at = inline ? last.range[1] : lineEnd(session.text, last.range[1]);
  const lead = inline ? ', ' : `\n${indentOf(session.text, last.range[0])}- `;
  for (const label of added) session.edits.push({ at, length: 0, text: `${lead}${quoted(label)}` });
  session.changes.push(`${column.name}: +${added.join(', +')}`);
}

/** Of the first rule that has such a list. */
function validValues(map: YAMLMap): YAMLSeq | null {
  const rules = map.get('quality', true) as YamlNode | undefined;
  if (!isSeq(rules)) return null;
  for (const rule of rules.items) {
    const list = isMap(rule) ? rule.getIn(['arguments', 'validValues'], true) : null;
    if (isSeq(list)) return list;
  }
  return null;
}

function appendColumn(session: Session, list: YAMLSeq, column: Column, inferred: InferResult): void {
  const last = list.items.at(-1) as YamlNode | undefined;
  const [first] = list.items as YamlNode[];
  const item = itemText(inferred, column);
  if (list.flow === true || last?.range == null || first?.range == null || item === null) {
    session.left.push(`${column.name} is new: add it by hand, the list of properties stands on one line`);
    return;
  }
  const indent = indentOf(session.text, first.range[0]);
  const end = lineEnd(session.text, trimmedEnd(session.text, last.range[1]));
  const lines = item.map((line) => (line === '' ? '' : `\n${indent}${line}`));
  session.edits.push({ at: end, length: 0, text: lines.join('') });
  session.changes.push(`${column.name}: added (${column.physicalType ?? column.logicalType ?? 'any'})`);
}

/** The inferred column's lines, the dash at the margin. */
function itemText(inferred: InferResult, column: Column): string[] | null {
  const node = parseDocument(inferred.text).getIn(column.path, true) as YamlNode | undefined;
  if (node?.range == null) return null;
  const margin = indentOf(inferred.text, node.range[0]).length;
  const start = lineStart(inferred.text, node.range[0]);
  const text = inferred.text.slice(start, trimmedEnd(inferred.text, node.range[1]));
  return text.split('\n').map((line) => line.slice(margin));
}

function setKey(session: Session, map: YAMLMap, key: string, value: string): void {
  const pair = map.items.find((item) => isPair(item) && isScalar(item.key) && item.key.value === key);
  const old = pair?.value as Scalar | undefined;
  if (pair !== undefined && isScalar(old) && old.range != null) {
    session.edits.push({ at: old.range[0], length: old.range[1] - old.range[0], text: value });
    return;
  }
  const anchor = map.items.find((item) => isScalar(item.key) && item.key.value === 'name') ?? map.items[0];
  const name = anchor?.key as Scalar | undefined;
  const end = (anchor?.value as YamlNode | undefined)?.range?.[1];
  if (name?.range == null || end === undefined) return;
  if (map.flow === true) session.edits.push({ at: end, length: 0, text: `, ${key}: ${value}` });
  else {
    const indent = ' '.repeat(name.range[0] - lineStart(session.text, name.range[0]));
    session.edits.push({ at: lineEnd(session.text, end), length: 0, text: `\n${indent}${key}: ${value}` });
  }
}

function applied({ text, edits }: Session): string {
  let out = '';
  let at = 0;
  // Insertions at one place keep the order in which they were made.
  for (const edit of edits
    .map((item, order) => ({ ...item, order }))
    .toSorted((a, b) => a.at - b.at || a.order - b.order)) {
    out += text.slice(at, edit.at) + edit.text;
    at = edit.at + edit.length;
  }
  return out + text.slice(at);
}

const lineStart = (text: string, at: number): number => text.lastIndexOf('\n', at - 1) + 1;

function lineEnd(text: string, at: number): number {
  const found = text.indexOf('\n', at);
  const end = found < 0 ? text.length : found;
  return text[end - 1] === '\r' ? end - 1 : end;
}

function trimmedEnd(text: string, at: number): number {
  let end = at;
  while (end > 0 && /\s/.test(text[end - 1] ?? '')) end--;
  return end;
}

/** What stands before the dash of the line's list entry. */
function indentOf(text: string, at: number): string {
  return /^\s*/.exec(text.slice(lineStart(text, at), at))?.[0] ?? '';
}

/** Plain where YAML 1.1 and 1.2, block and flow, read the same text. */
function quoted(text: string): string {
  const plain =
    /^[A-Za-z][A-Za-z0-9_.]*(?: [A-Za-z0-9_.]+)*$/.test(text) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(text);
  return plain ? text : `'${text.replaceAll("'", "''")}'`;
}
