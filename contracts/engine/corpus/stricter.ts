import { column, contract, ours, rule, tableRule } from './entry.ts';
import type { CorpusEntry } from './entry.ts';

/** Wrong by ours alone: the schema's holes, and what Sluice could not carry out. Each says why. */
export const STRICTER: readonly CorpusEntry[] = [
  ours(
    'options of a boolean',
    'the prose gives boolean none, the schema forgets to say so',
    column('{name: a, logicalType: boolean, logicalTypeOptions: {minimum: 0}, physicalType: boolean}'),
    'UNKNOWN_KEY',
  ),
  ours(
    'no schema',
    'the prose of the standard requires it (ODCS #343), and a gate without columns checks nothing',
    'apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active\n',
    'MISSING_KEY',
  ),
  ours(
    '2.2 document',
    'versions before 3.0 have another shape, which the official enum lists all the same',
    contract({ head: 'apiVersion: v2.2.2\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active' }),
    'UNKNOWN_VALUE',
  ),
  ours(
    'version is not semantic',
    'the version gate compares versions',
    contract({ head: "apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: '1.0'\nstatus: active" }),
    'VERSION_FORMAT',
  ),
  ours('empty rule', 'hole: a rule that says nothing passes the schema', tableRule('{}'), 'MISSING_KEY'),
  ours(
    'mustBe text',
    'hole: a count can never be a word',
    tableRule('{metric: rowCount, mustBe: zero}'),
    'OPERATOR_VALUE',
  ),
  ours(
    'between backwards',
    'hole: no number lies between 10 and 1',
    tableRule('{metric: rowCount, mustBeBetween: [10, 1]}'),
    'BOUNDS_CROSSED',
  ),
  ours(
    'duplicate column',
    'hole: two properties of one name',
    column('{name: id, logicalType: string, physicalType: text}'),
    'DUPLICATE_COLUMN',
  ),
  ours(
    'two columns of one key position',
    'hole: the key has no order',
    column(
      '{name: a, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}',
    ),
    'KEY_POSITION',
  ),
  ours(
    'gap in key positions',
    'hole: position 2 is missing',
    column(
      '{name: a, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 3, required: true}',
    ),
    'KEY_POSITION',
  ),
  ours(
    'sla on an absent column',
    'hole: nothing could be measured',
    contract({
      root: 'slaProperties: [{property: latency, value: 5, unit: minutes, element: t.create_at}]\n',
      columns: ['{name: created_at, logicalType: timestamp, physicalType: timestamptz}'],
    }),
    'SLA_ELEMENT',
  ),
  ours(
    'sla unit',
    'hole: parsecs measure no time',
    contract({ root: 'slaProperties: [{property: latency, value: 5, unit: parsecs}]\n' }),
    'SLA_UNIT',
  ),
  ours(
    'bounds crossed',
    'hole: no value can be right',
    column('{name: a, logicalType: integer, logicalTypeOptions: {minimum: 10, maximum: 1}, physicalType: integer}'),
    'BOUNDS_CROSSED',
  ),
  ours(
    'names that differ by case (case 17)',
    'Delta names differ by more than case',
    contract({
      columns: [
        '{name: name, logicalType: string, physicalType: text}',
        '{name: Name, logicalType: string, physicalType: text}',
      ],
    }),
    'NAME_CLASH',
  ),
  ours(
    'unknown engine (dqx #1424)',
    'a rule that no engine runs would vanish',
    tableRule('{type: custom, engine: soda, implementation: x}'),
    'UNKNOWN_ENGINE',
  ),
  ours(
    'cel with a misspelt column',
    'the rule would fail for every row',
    tableRule("{type: custom, engine: cel, implementation: 'row.idd > 0'}"),
    'RULE_INVALID',
  ),
  ours(
    'matches in cel',
    'it runs a backtracking engine',
    column(
      '{name: a, logicalType: string, physicalType: text, quality: [{type: custom, engine: cel, implementation: \'row.a.matches("^a")\'}]}',
    ),
    'RULE_INVALID',
  ),
  ours(
    'lookaround',
    'patterns run in linear time',
    column("{name: a, logicalType: string, logicalTypeOptions: {pattern: '(?=a)'}, physicalType: text}"),
    'PATTERN_REFUSED',
  ),
  ours(
    'sql that writes',
    'SELECT only',
    tableRule("{type: sql, query: 'DELETE FROM {object}', mustBe: 0}"),
    'SQL_REFUSED',
  ),
  ours(
    'sql of two statements',
    'SELECT only',
    tableRule("{type: sql, query: 'SELECT 1; DROP TABLE x', mustBe: 0}"),
    'SQL_REFUSED',
  ),
  ours(
    'our word misspelt',
    'unknown values of our vocabulary are errors',
    contract({ table: '    customProperties: [{property: unknownColumns, value: evolv}]\n' }),
    'CUSTOM_VALUE',
  ),
  ours(
    'unknown custom property of a cel rule',
    'our engine reads its own words only',
    tableRule(
      '{type: custom, engine: cel, implementation: row.id > 0, customProperties: [{property: onViolaton, value: warn}]}',
    ),
    'CUSTOM_UNKNOWN',
  ),
  ours(
    'drop without allowDrop',
    'losing events must be said twice',
    contract({ table: '    customProperties: [{property: onViolation, value: drop}]\n' }),
    'DROP_NOT_ALLOWED',
  ),
  ours(
    'types that contradict',
    'one of the two is wrong',
    column('{name: a, logicalType: string, physicalType: bigint}'),
    'TYPE_CONTRADICTION',
  ),
  ours(
    'Delta type that loses values',
    'a bigint does not fit a Delta integer',
    column(
      '{name: a, logicalType: integer, physicalType: bigint, customProperties: [{property: physicalTypes, value: {delta: integer}}]}',
    ),
    'DELTA_TYPE_UNSUPPORTED',
  ),
  ours(
    'invalidValues without arguments',
    'nothing says which values are invalid',
    rule('{metric: invalidValues, mustBe: 0}'),
    'ARGUMENT_MISSING',
  ),
  ours(
    'duplicateValues of an absent column',
    'nothing could be counted',
    tableRule('{metric: duplicateValues, arguments: {properties: [idd]}, mustBe: 0}'),
    'REFERENCE',
  ),
  ours(
    'rule ids twice',
    'reports name rules by id',
    tableRule('{id: r, metric: rowCount, mustBe: 1}, {id: r, metric: rowCount, mustBe: 2}'),
    'DUPLICATE_ID',
  ),
  ours(
    'no columns',
    'a gate without columns checks nothing',
    'apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active\nschema: [{name: t}]\n',
    'NO_COLUMNS',
  ),
  ours(
    'masked key',
    'rows would lose their identity',
    contract({
      columns: [
        '{name: k, logicalType: string, physicalType: text, primaryKey: true, primaryKeyPosition: 2, required: true, customProperties: [{property: piiAction, value: mask}]}',
      ],
    }),
    'CONTRADICTION',
  ),
  ours('duplicate YAML key', 'the later value would win in silence', `${contract()}id: again\n`, 'YAML_DUPLICATE_KEY'),
  ours(
    'a rule inside an array that no element decides',
    'nothing would count it, and a rule that is not carried out must not look as if it were',
    column(
      '{name: a, logicalType: array, physicalType: jsonb, items: {logicalType: string, quality: [{metric: duplicateValues, mustBe: 0}]}}',
    ),
    'RULE_NESTED',
  ),
  ours(
    'a bound that is no number',
    'nothing is greater or less than it: the bound would not be tested',
    column('{name: a, logicalType: number, logicalTypeOptions: {maximum: .nan}, physicalType: double precision}'),
    'WRONG_TYPE',
  ),
  ours(
    'an infinite bound',
    'it would bound nothing; a number that is too long to write is a typing error',
    column('{name: a, logicalType: number, logicalTypeOptions: {maximum: .inf}, physicalType: double precision}'),
    'WRONG_TYPE',
  ),
  ours(
    'a name that the table in the lake has already',
    'the table could not be made: every row has its position under that name',
    column('{name: _Sluice_LSN, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint}'),
    'NAME_RESERVED',
  ),
  ours(
    'a name of the change feed',
    'the change feed adds it to each row',
    column('{name: _change_type, logicalType: string, physicalType: text}'),
    'NAME_RESERVED',
  ),
  ours(
    'a tag of YAML that nobody knows',
    'it gives the value another meaning than its text',
    contract({ root: 'name: !secret x\n' }),
    'YAML_UNSUPPORTED',
  ),
];
