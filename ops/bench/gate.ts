/**
 * Decode and gate, beside a bare JSON.parse and ajv of the same bytes, in one run on one core: a ten-column event, six
 * constraints, one CEL row rule. `sluice bench gate` prints what this returns; run alone it prints the table itself.
 *
 * The bare side checks less (no int64, no exact decimals, no row rule): it is the floor that a script would start from.
 */
import { pathToFileURL } from 'node:url';

import { Ajv2019 } from 'ajv/dist/2019.js';

import { compileGate } from '../../contracts/engine/compile.ts';
import type { Gate } from '../../contracts/engine/gate.ts';
import { parseContract } from '../../contracts/engine/parse.ts';
import { createEnvelopeDecoder, decodeRecord } from '../../services/log/envelope-decode.ts';
import { encodeRecordHeader } from '../../services/log/event.ts';
import type { ColumnShape, TableShape } from '../../services/log/event.ts';
import { lsn } from '../../services/log/position.ts';
import type { LogOffset } from '../../services/log/position.ts';

export interface GateBenchOptions {
  /** Events a round; default 100,000. */
  readonly events?: number;
  /** Measured rounds, of which the best counts; default 5. */
  readonly rounds?: number;
}

export interface GateBenchResult {
  readonly events: number;
  readonly bytesPerEvent: number;
  readonly decodePerSecond: number;
  /** Gate alone, on decoded rows. */
  readonly gatePerSecond: number;
  readonly decodeAndGatePerSecond: number;
  readonly barePerSecond: number;
  /** decodeAndGatePerSecond / barePerSecond */
  readonly ratio: number;
  /** Violating events a round: the row rule did run. */
  readonly violations: number;
}

const CONTRACT = `apiVersion: v3.1.0
kind: DataContract
id: bench.public.orders
version: 1.0.0
status: active
schema:
  - name: orders
    physicalName: public.orders
    quality:
      - {id: paid_has_time, type: custom, engine: cel, implementation: 'row.status != "paid" || row.paid_at != null'}
    properties:
      - {name: tenant_id, logicalType: integer, logicalTypeOptions: {format: i32}, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: order_id, logicalType: integer, logicalTypeOptions: {format: i64, minimum: 1}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 2, required: true}
      - {name: ref, logicalType: string, logicalTypeOptions: {format: uuid}, physicalType: uuid, required: true}
      - {name: email, logicalType: string, logicalTypeOptions: {format: email, maxLength: 320}, physicalType: varchar(320)}
      - {name: status, logicalType: string, physicalType: order_status, required: true, quality: [{id: status_ok, metric: invalidValues, arguments: {validValues: [new, paid, shipped]}, mustBe: 0}]}
      - {name: total, logicalType: number, logicalTypeOptions: {minimum: 0}, physicalType: 'numeric(12,2)', required: true}
      - {name: note, logicalType: string, physicalType: text}
      - {name: created_at, logicalType: timestamp, logicalTypeOptions: {timezone: true}, physicalType: timestamptz, required: true}
      - {name: paid_at, logicalType: timestamp, logicalTypeOptions: {timezone: true}, physicalType: timestamptz}
      - {name: active, logicalType: boolean, physicalType: boolean}
`;

const BARE_SCHEMA = {
  type: 'object',
  required: ['tenant_id', 'order_id', 'ref', 'status', 'total', 'created_at'],
  properties: {
    tenant_id: { type: 'integer' },
    order_id: { type: 'integer', minimum: 1 },
    ref: { type: 'string', pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' },
    email: { type: ['string', 'null'], maxLength: 320, pattern: '^[^@ ]+@[^@ ]+$' },
    status: { enum: ['new', 'paid', 'shipped'] },
    total: { type: 'string', pattern: '^[0-9]{1,10}(\\.[0-9]{1,2})?$' },
    note: { type: ['string', 'null'] },
    created_at: { type: 'string' },
    paid_at: { type: ['string', 'null'] },
    active: { type: ['boolean', 'null'] },
  },
};

const TYPES: readonly (readonly [string, string, number, number])[] = [
  ['tenant_id', 'integer', 23, 1],
  ['order_id', 'bigint', 20, 2],
  ['ref', 'uuid', 2950, 0],
  ['email', 'character varying(320)', 1043, 0],
  ['status', 'order_status', 16_400, 0],
  ['total', 'numeric(12,2)', 1700, 0],
  ['note', 'text', 25, 0],
  ['created_at', 'timestamp with time zone', 1184, 0],
  ['paid_at', 'timestamp with time zone', 1184, 0],
  ['active', 'boolean', 16, 0],
];

const SHAPE: TableShape = {
  schema: 'public',
  table: 'orders',
  oid: 16_384,
  version: 1,
  columns: TYPES.map(([name, pgType, typeOid, keyPosition]): ColumnShape => ({
    name,
    pgType,
    typeOid,
    typeModifier: -1,
    baseType: null,
    kind: name === 'status' ? 'enum' : 'base',
    enumLabels: name === 'status' ? ['new', 'paid', 'shipped'] : null,
    notNull: keyPosition > 0,
    keyPosition,
  })),
};

interface BenchRecord {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly header: Buffer;
}

/** Deterministic: the same events in every run. Some paid orders lack their time and break the row rule. */
function makeRecords(count: number): BenchRecord[] {
  const statuses = ['new', 'paid', 'shipped'];
  return Array.from({ length: count }, (_, n) => {
    const status = statuses[n % 3] ?? 'new';
    const paid =
      status === 'paid' && n % 1000 !== 1 ? `"2024-05-06T07:08:09.${String(n % 1_000_000).padStart(6, '0')}Z"` : 'null';
    const hex = n.toString(16).padStart(12, '0');
    const after =
      `{"tenant_id":${n % 100},"order_id":${9_007_199_254_000_000n + BigInt(n)},"ref":"123e4567-e89b-12d3-a456-${hex}",` +
      `"email":"user${n}@example.com","status":"${status}","total":"${n % 100_000}.${String(n % 100).padStart(2, '0')}",` +
      `"note":"order number ${n}","created_at":"2024-01-02T03:04:05.${String(n % 1_000_000).padStart(6, '0')}Z","paid_at":${paid},"active":${n % 2 === 0}}`;
    const value =
      `{"before":null,"after":${after},"source":{"version":"1","connector":"postgresql","name":"bench","ts_ms":1704164645123,` +
      `"snapshot":"false","db":"shop","sequence":"[\\"1\\",\\"2\\"]","schema":"public","table":"orders","txId":${n},"lsn":${1_000_000 + n},"epoch":1,"ord":0},` +
      `"op":"c","ts_ms":1704164645456,"transaction":{"id":"${n}:${1_000_000 + n}","total_order":1,"data_collection_order":1}}`;
    const header = encodeRecordHeader({
      op: 'c',
      flags: 0,
      epoch: 1,
      lsn: lsn(BigInt(1_000_000 + n)),
      ord: 0,
      shapeVersion: 1,
      committedAtMicros: 1_704_164_645_123_000n,
    });
    return {
      key: Buffer.from(`{"tenant_id":${n % 100},"order_id":${9_007_199_254_000_000n + BigInt(n)}}`),
      value: Buffer.from(value),
      header,
    };
  });
}

function makeGate(): Gate {
  const { contract, findings } = parseContract(CONTRACT, 'bench.odcs.yaml');
  if (contract === null) throw new Error(`the bench's contract is invalid: ${findings[0]?.message}`);
  return compileGate(contract, null);
}

export function benchGate(options: GateBenchOptions = {}): GateBenchResult {
  const count = options.events ?? 100_000;
  const rounds = options.rounds ?? 5;
  const records = makeRecords(Math.min(count, 20_000));
  const gate = makeGate();
  const decoder = createEnvelopeDecoder(SHAPE);
  const place = { topic: 'bench.public.orders', partition: 0, offset: 0n as LogOffset };
  let violations = 0;
  const each = (action: (record: BenchRecord) => void): number => bestRate(records, count, rounds, action);
  const decode = each((record) => void decodeRecord(decoder, record.key, record.value, record.header, place));
  const decoded = decodeRecord(
    decoder,
    records[0]?.key ?? null,
    records[0]?.value ?? null,
    records[0]?.header ?? null,
    place,
  );
  const gateAlone = each(() => void gate.check('insert', decoded.row));
  const both = each((record) => {
    const event = decodeRecord(decoder, record.key, record.value, record.header, place);
    if (gate.check('insert', event.row) !== null) violations++;
  });
  const ajv = new Ajv2019({ strict: false });
  const validate = ajv.compile(BARE_SCHEMA);
  let bareFailures = 0;
  const bare = each((record) => {
    const envelope = JSON.parse(record.value.toString('utf8')) as { readonly after: unknown };
    if (!validate(envelope.after)) bareFailures++;
  });
  if (bareFailures > 0) throw new Error('the bare schema refuses good events: the comparison would not be fair');
  return {
    events: count,
    bytesPerEvent: Math.round(records.reduce((sum, record) => sum + record.value.length, 0) / records.length),
    decodePerSecond: decode,
    gatePerSecond: gateAlone,
    decodeAndGatePerSecond: both,
    barePerSecond: bare,
    ratio: Number((both / bare).toFixed(2)),
    violations: Math.round(violations / (rounds + 1)),
  };
}

/** Best of some rounds after one to warm up, events a second. */
function bestRate(
  records: readonly BenchRecord[],
  count: number,
  rounds: number,
  action: (record: BenchRecord) => void,
): number {
  let best = 0;
  for (let round = 0; round <= rounds; round++) {
    const start = process.hrtime.bigint();
    for (let done = 0; done < count; done += records.length) for (const record of records) action(record);
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    if (round > 0) best = Math.max(best, (Math.ceil(count / records.length) * records.length) / seconds);
  }
  return Math.round(best);
}

export function formatGateBench(result: GateBenchResult): string {
  const rate = (value: number): string => `${value.toLocaleString('en-US').padStart(10)} events/s`;
  return [
    `gate: ${result.events} events of ${result.bytesPerEvent} bytes, ten columns, six constraints, one CEL rule, one core`,
    `  decode             ${rate(result.decodePerSecond)}`,
    `  gate               ${rate(result.gatePerSecond)}`,
    `  decode + gate      ${rate(result.decodeAndGatePerSecond)}`,
    `  JSON.parse + ajv   ${rate(result.barePerSecond)}`,
    `  ratio              ${result.ratio.toFixed(2).padStart(10)}`,
    `  violating events   ${String(result.violations).padStart(10)}`,
  ].join('\n');
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const result = benchGate();
  process.stdout.write(
    process.argv.includes('--json') ? `${JSON.stringify(result)}\n` : `${formatGateBench(result)}\n`,
  );
}
