import { V32, column, column32, contract, ok, rule, server, tableRule } from './entry.ts';
import type { CorpusEntry } from './entry.ts';

/** Right by the official schema, and by ours. */
export const VALID: readonly CorpusEntry[] = [
  ok('smallest', contract()),
  ok(
    '3.0.2 is read',
    contract({ head: 'apiVersion: v3.0.2\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active' }),
  ),
  ok('3.2 without status', contract({ head: V32 })),
  ok(
    'all prose of the root',
    contract({
      root: 'name: n\ndomain: d\ntenant: x\ndataProduct: p\ntags: [a, b]\ndescription: {purpose: p, usage: u, limitations: l, authoritativeDefinitions: [{url: u, type: t}]}\ncontractCreatedTs: 2024-01-01T00:00:00Z\n',
    }),
  ),
  ok(
    'team as an object',
    contract({ root: 'team: {name: sales, members: [{username: ana, role: owner, dateIn: 2024-01-01}]}\n' }),
  ),
  ok('team as a list', contract({ root: 'team: [{username: ana, role: owner}]\n' })),
  ok(
    'support, price, roles',
    contract({
      root: "support: [{channel: '#a', tool: slack, scope: issues, url: 'https://a.example'}]\nprice: {priceAmount: 9.95, priceCurrency: USD, priceUnit: megabyte}\nroles: [{role: r, access: read, firstLevelApprovers: a}]\n",
    }),
  ),
  ok('postgres server', server('{server: s, type: postgres, host: h, port: 5432, database: d, schema: public}')),
  ok(
    'kafka server',
    server("{server: s, type: kafka, host: 'h:9092', format: json, customProperties: [{property: topic, value: x}]}"),
  ),
  ok('s3 server', server("{server: s, type: s3, location: 's3://b/p', endpointUrl: 'http://h:9000', format: delta}")),
  ok('local server', server('{server: s, type: local, path: ./x, format: delta}')),
  ok('custom server', server('{server: s, type: custom, host: h, location: "s3://x/y", port: 1}')),
  ok(
    '3.2 port as text',
    contract({
      head: V32,
      root: "servers: [{server: s, type: postgres, host: h, port: '${PORT}', database: d, schema: s}]\n",
    }),
  ),
  ok(
    '3.2 iceberg server',
    contract({ head: V32, root: "servers: [{server: s, type: iceberg, catalog: c, catalogUrl: 'https://h/c'}]\n" }),
  ),
  ok(
    'merge keys',
    contract({
      columns: [
        '&a {name: a, logicalType: string, physicalType: text, required: true}',
        '{<<: *a, name: b, required: false}',
        '{name: c, <<: [{description: first}, *a]}',
      ],
    }),
  ),
  ok('column without logicalType (ODCS #322)', column('{name: a, physicalType: text}')),
  ok('3.2 column without logicalType', column32('{name: a, physicalType: text}')),
  ok(
    'string options',
    column(
      "{name: a, logicalType: string, logicalTypeOptions: {minLength: 1, maxLength: 9, pattern: '^a', format: email}, physicalType: varchar(9)}",
    ),
  ),
  ok(
    'number options',
    column(
      "{name: a, logicalType: number, logicalTypeOptions: {minimum: 0, exclusiveMaximum: 10.5, multipleOf: 0.01}, physicalType: 'numeric(12,2)'}",
    ),
  ),
  ok(
    'date bounds',
    column("{name: a, logicalType: date, logicalTypeOptions: {minimum: '2020-01-01'}, physicalType: date}"),
  ),
  ok(
    'timestamp options',
    column(
      '{name: a, logicalType: timestamp, logicalTypeOptions: {timezone: true, defaultTimezone: Etc/UTC}, physicalType: timestamptz}',
    ),
  ),
  ok(
    'array of objects in jsonb',
    column(
      '{name: a, logicalType: array, physicalType: jsonb, logicalTypeOptions: {minItems: 1, uniqueItems: true}, items: {logicalType: object, properties: [{name: x, logicalType: integer}]}}',
    ),
  ),
  ok(
    'object',
    column(
      '{name: a, logicalType: object, physicalType: jsonb, logicalTypeOptions: {required: [x], maxProperties: 3}, properties: [{name: x, logicalType: string}]}',
    ),
  ),
  ok('array column', column("{name: a, logicalType: array, physicalType: 'text[]', items: {logicalType: string}}")),
  ok(
    '3.2 enum and deprecated',
    column32(
      '{name: a, logicalType: string, physicalType: text, deprecated: true, enum: [{value: x, label: X}, {value: y}], synonyms: [{synonym: b}]}',
    ),
  ),
  ok(
    '3.2 map',
    column32(
      '{name: a, logicalType: map, physicalType: hstore, map: {key: {logicalType: string}, value: {logicalType: string}}}',
    ),
  ),
  ok(
    '3.2 vector',
    column32(
      '{name: a, logicalType: vector, physicalType: vector, logicalTypeOptions: {dimensions: 3, elementType: float32}}',
    ),
  ),
  ok(
    'classification and pii',
    column(
      '{name: a, logicalType: string, physicalType: text, classification: restricted, tags: [pii], criticalDataElement: true, encryptedName: a_enc, customProperties: [{property: pii, value: email}, {property: piiAction, value: hash}]}',
    ),
  ),
  ok(
    'foreign key',
    column('{name: a, logicalType: integer, physicalType: integer, relationships: [{type: foreignKey, to: other.id}]}'),
  ),
  ok(
    'composite foreign key',
    contract({
      table: '    relationships: [{type: foreignKey, from: [t.id, t.a], to: [u.id, u.a]}]\n',
      columns: ['{name: a, logicalType: integer, physicalType: integer}'],
    }),
  ),
  ok(
    'library rules',
    rule(
      "{metric: nullValues, mustBeLessThan: 1, unit: percent}, {id: b, metric: missingValues, arguments: {missingValues: [null, '']}, mustBe: 0}, {metric: duplicateValues, mustBe: 0}",
    ),
  ),
  ok(
    'rowCount and composite duplicates',
    tableRule(
      '{metric: rowCount, mustBeBetween: [1, 10]}, {metric: duplicateValues, arguments: {properties: [id]}, mustBe: 0}',
    ),
  ),
  ok(
    'sql rule',
    tableRule(
      "{type: sql, query: 'SELECT count(*) FROM {object} WHERE id < 0', mustBe: 0, severity: warning, dimension: accuracy}",
    ),
  ),
  ok(
    'cel rule',
    tableRule(
      '{id: r, type: custom, engine: cel, implementation: row.id > 0, customProperties: [{property: scope, value: row}, {property: onViolation, value: quarantine}]}',
    ),
  ),
  ok('text rule', tableRule('{type: text, description: must be nice}')),
  ok(
    'sla',
    contract({
      root: 'slaProperties: [{id: l, property: latency, value: 5, unit: minutes, element: t.at, driver: operational}, {property: retention, value: 7, unit: y}]\n',
      columns: ['{name: at, logicalType: timestamp, logicalTypeOptions: {timezone: true}, physicalType: timestamptz}'],
    }),
  ),
  ok(
    'our table properties',
    contract({
      table:
        '    customProperties: [{property: compatibility, value: FULL}, {property: unknownColumns, value: evolve}, {property: maxQuarantineRatio, value: 0.05}, {property: allowDrop, value: true}, {property: onViolation, value: drop}]\n',
    }),
  ),
  ok(
    "another tool's custom properties",
    contract({ table: '    customProperties: [{property: someVendorThing, value: {a: [1]}}]\n' }),
  ),
];
