import { both, column, column32, contract, server, tableRule } from './entry.ts';
import type { CorpusEntry } from './entry.ts';

/** Wrong by the official schema, and by ours. */
export const INVALID: readonly CorpusEntry[] = [
  both(
    'no version',
    contract({ head: 'apiVersion: v3.1.0\nkind: DataContract\nid: x\nstatus: active' }),
    'MISSING_KEY',
  ),
  both(
    'no status in 3.1',
    contract({ head: 'apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: 1.0.0' }),
    'MISSING_KEY',
  ),
  both(
    'unknown apiVersion',
    contract({ head: 'apiVersion: v9.9.9\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active' }),
    'UNKNOWN_VALUE',
  ),
  both(
    'wrong kind',
    contract({ head: 'apiVersion: v3.1.0\nkind: Contract\nid: x\nversion: 1.0.0\nstatus: active' }),
    'UNKNOWN_VALUE',
  ),
  both(
    'version as a number',
    contract({ head: 'apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: 1.0\nstatus: active' }),
    'WRONG_TYPE',
  ),
  both('unknown key at the root', contract({ root: 'schemas: []\n' }), 'UNKNOWN_KEY'),
  both('unknown key of a column', column('{name: a, logicalType: string, nullable: true}'), 'UNKNOWN_KEY'),
  both('column without name', column('{logicalType: string}'), 'MISSING_KEY'),
  both('unknown logicalType', column('{name: a, logicalType: text}'), 'UNKNOWN_VALUE'),
  both('3.2 logicalType in 3.1', column('{name: a, logicalType: map, physicalType: hstore}'), 'UNKNOWN_VALUE'),
  both(
    'precision is no option',
    column("{name: a, logicalType: number, logicalTypeOptions: {precision: 12}, physicalType: 'numeric(12,2)'}"),
    'UNKNOWN_KEY',
  ),
  both(
    'string option on a number',
    column('{name: a, logicalType: number, logicalTypeOptions: {maxLength: 3}, physicalType: real}'),
    'UNKNOWN_KEY',
  ),
  both(
    'negative maxLength',
    column('{name: a, logicalType: string, logicalTypeOptions: {maxLength: -1}, physicalType: text}'),
    'OUT_OF_RANGE',
  ),
  both(
    'multipleOf 0',
    column('{name: a, logicalType: number, logicalTypeOptions: {multipleOf: 0}, physicalType: numeric}'),
    'OUT_OF_RANGE',
  ),
  both(
    'integer format of no size',
    column('{name: a, logicalType: integer, logicalTypeOptions: {format: i65}, physicalType: bigint}'),
    'UNKNOWN_VALUE',
  ),
  both('required as text', column("{name: a, logicalType: string, required: 'yes'}"), 'WRONG_TYPE'),
  both('id with a blank', column("{id: 'a b', name: a, logicalType: string}"), 'BAD_FORMAT'),
  both('3.1 enum', column('{name: a, logicalType: string, enum: [{value: x}]}'), 'UNKNOWN_KEY'),
  both('3.2 map without map', column32('{name: a, logicalType: map}'), 'MISSING_KEY'),
  both(
    '3.2 enum with the same value twice',
    column32('{name: a, logicalType: string, enum: [{value: x, label: l}, {value: y}, {label: l, value: x}]}'),
    'UNKNOWN_VALUE',
  ),
  both('3.2 empty enum', column32('{name: a, logicalType: string, enum: []}'), 'OUT_OF_RANGE'),
  both('reference without dot', column('{name: a, logicalType: integer, relationships: [{to: id}]}'), 'BAD_FORMAT'),
  both(
    'relationship without to',
    column('{name: a, logicalType: integer, relationships: [{type: foreignKey}]}'),
    'MISSING_KEY',
  ),
  both(
    'from on a column',
    column('{name: a, logicalType: integer, relationships: [{from: t.a, to: u.b}]}'),
    'UNKNOWN_KEY',
  ),
  both('unknown server type', server('{server: s, type: postgre, host: h}'), 'UNKNOWN_KEY', 'UNKNOWN_VALUE'),
  both('postgres without port', server('{server: s, type: postgres, host: h, database: d, schema: s}'), 'MISSING_KEY'),
  both(
    'port as text in 3.1',
    server("{server: s, type: postgres, host: h, port: '5432', database: d, schema: s}"),
    'WRONG_TYPE',
  ),
  both('topic on a kafka server', server('{server: s, type: kafka, host: h, topic: x}'), 'UNKNOWN_KEY'),
  both('location with a variable', server("{server: s, type: s3, location: '${BUCKET}'}"), 'BAD_FORMAT'),
  both('misspelt operator (soda-core #2810)', tableRule('{metric: rowCount, mustBeGreaterThen: 1000}'), 'UNKNOWN_KEY'),
  both('rule without operator', tableRule('{metric: rowCount}'), 'NO_OPERATOR'),
  both('two operators', tableRule('{metric: rowCount, mustBeGreaterThan: 1, mustBeLessThan: 5}'), 'SEVERAL_OPERATORS'),
  both(
    'operator on a custom rule',
    tableRule('{type: custom, engine: cel, implementation: row.id > 0, mustBe: 0}'),
    'UNKNOWN_KEY',
  ),
  both('unknown metric', tableRule('{metric: rowCounts, mustBe: 0}'), 'UNKNOWN_VALUE'),
  both('two-letter dimension', tableRule('{metric: rowCount, mustBe: 0, dimension: ac}'), 'UNKNOWN_VALUE'),
  both('sql without query', tableRule('{type: sql, mustBe: 0}'), 'MISSING_KEY'),
  both('between with three numbers', tableRule('{metric: rowCount, mustBeBetween: [1, 2, 3]}'), 'OUT_OF_RANGE'),
  both('greater than text', tableRule('{metric: rowCount, mustBeGreaterThan: many}'), 'WRONG_TYPE'),
  both(
    'custom property without value',
    contract({ table: '    customProperties: [{property: compatibility}]\n' }),
    'MISSING_KEY',
  ),
  both('sla without value', contract({ root: 'slaProperties: [{property: latency}]\n' }), 'MISSING_KEY'),
  both(
    'customProperties of an sla in 3.1',
    contract({ root: 'slaProperties: [{property: latency, value: 1, customProperties: []}]\n' }),
    'UNKNOWN_KEY',
  ),
  both('quality at the root', contract({ root: 'quality: []\n' }), 'UNKNOWN_KEY'),
];
