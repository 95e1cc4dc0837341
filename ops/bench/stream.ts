/**
 * Stream: decode + gate + fold + merge + commit, from a prefilled embedded log into a local lake, as ratios of one run.
 * Ten columns, 20 % inserts and 80 % updates over a table that the first tenth of the events fills.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { contractFolder } from '../../services/ingest/contract-files.ts';
import { startIngest } from '../../services/ingest/pipeline.ts';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import type { EventLog, OutgoingRecord } from '../../services/log/log.ts';
import { RECORD_HEADER_BYTES } from '../../services/log/event.ts';
import type { TableShape } from '../../services/log/event.ts';
import { dataTopic, progressTopic, readerTopic } from '../../services/log/topics.ts';
import { systemClock } from '../../services/stream/triggers.ts';

export interface StreamBenchOptions {
  readonly events: number;
  readonly maxOffsetsPerTrigger: number;
  readonly changeDataFeed: boolean;
}

export interface StreamBenchResult {
  readonly events: number;
  readonly seconds: number;
  readonly eventsPerSecond: number;
  /** CPU time of the whole process while the stream ran: on a busy machine the figure to compare. */
  readonly cpuSeconds: number;
  readonly batches: number;
  /** ms by phase, summed over all batches. */
  readonly phasesMs: Readonly<Record<string, number>>;
  readonly rowsInTable: number;
  readonly rssBytes: number;
}

const NAME = 'bench';
const COLUMNS: readonly (readonly [name: string, pgType: string])[] = [
  ['id', 'bigint'],
  ['customer_id', 'integer'],
  ['status', 'text'],
  ['total', 'numeric(12,2)'],
  ['quantity', 'integer'],
  ['email', 'character varying(320)'],
  ['created_at', 'timestamp with time zone'],
  ['note', 'text'],
  ['paid', 'boolean'],
  ['score', 'double precision'],
];
const MARK_EVERY = 10_000;

export async function benchStream(options: StreamBenchOptions): Promise<StreamBenchResult> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const log = await openEmbeddedLog({ directory: join(folder, 'log') });
  try {
    await fill(log, options.events);
    return await run(log, folder, options);
  } finally {
    await log.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function run(log: EventLog, folder: string, options: StreamBenchOptions): Promise<StreamBenchResult> {
  const phasesMs: Record<string, number> = {};
  let batches = 0;
  const cpu = process.cpuUsage();
  const started = performance.now();
  const ingest = await startIngest({
    name: NAME,
    log,
    lake: createFileStore(join(folder, 'lake')),
    stateFolder: join(folder, 'state'),
    contracts: contractFolder(join(folder, 'contracts')),
    trigger: { kind: 'interval', intervalMs: 0 },
    maxOffsetsPerTrigger: options.maxOffsetsPerTrigger,
    memoryBytes: 512 * 1024 * 1024,
    changeDataFeed: options.changeDataFeed,
    clock: systemClock,
    newId: randomUUID,
    onProgress: ({ durationMs }) => {
      batches++;
      for (const [phase, ms] of Object.entries(durationMs)) phasesMs[phase] = (phasesMs[phase] ?? 0) + ms;
    },
    onFailure: ({ error }) => console.error(error),
  });
  await ingest.drain();
  const seconds = (performance.now() - started) / 1000;
  const used = process.cpuUsage(cpu);
  const ledger = ingest.status().tables[0]?.ledger;
  await ingest.stop();
  const read = ledger?.read ?? 0;
  return {
    events: read,
    seconds,
    eventsPerSecond: Math.round(read / seconds),
    cpuSeconds: (used.user + used.system) / 1e6,
    batches,
    phasesMs,
    rowsInTable: ledger?.applied ?? 0,
    rssBytes: process.memoryUsage().rss,
  };
}

/** Events as the reader writes them, with a mark each ten thousand. */
async function fill(log: EventLog, events: number): Promise<void> {
  const topic = dataTopic(NAME, 'public', 'orders');
  const settings = { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false };
  await log.admin.ensureTopics({ [topic]: settings, [progressTopic(NAME)]: settings, [readerTopic(NAME)]: settings });
  const writer = await log.writer(NAME);
  const logId = await log.admin.logId();
  const shape: TableShape = {
    schema: 'public',
    table: 'orders',
    oid: 1,
    version: 1,
    columns: COLUMNS.map(([name, pgType], index) => ({
      name,
      pgType,
      typeOid: 0,
      typeModifier: -1,
      baseType: null,
      kind: 'base',
      enumLabels: null,
      notNull: index === 0,
      keyPosition: index === 0 ? 1 : 0,
    })),
  };
  const shapeValue = Buffer.from(JSON.stringify({ formatVersion: 1, shape }));
  await writer.append([
    { topic: readerTopic(NAME), key: Buffer.from('["shape",1]'), value: shapeValue, header: null, partition: 0 },
  ]);
  let bytes = 0;
  let nextId = 0;
  for (let at = 0, sequence = 1; at < events; at += MARK_EVERY, sequence++) {
    const records: OutgoingRecord[] = [];
    for (let i = at; i < Math.min(events, at + MARK_EVERY); i++) {
      const insert = i < events / 10 || i % 5 === 0;
      const id = insert ? nextId++ : (i * 7919) % nextId;
      const record = eventOf(topic, id, i, insert ? 'c' : 'u');
      bytes += record.value?.length ?? 0;
      records.push(record);
    }
    await writer.append(records, (next) => {
      const lsn = (0x1_0000_0000 + at).toString(16).toUpperCase();
      const mark = {
        formatVersion: 1,
        sequence,
        epoch: 1,
        logId,
        lsn: `1/${lsn.slice(-8)}`,
        ord: 0,
        confirmLsn: `1/${lsn.slice(-8)}`,
        open: false,
        nextOffsets: { [topic]: { 0: String(next.get(topic)?.get(0) ?? 0n) } },
        full: false,
        bytes: String(bytes),
        snapshotting: [],
        sourceTimeMicros: String(1_700_000_000_000_000 + at),
        atMs: 0,
      };
      return [
        { topic: progressTopic(NAME), key: null, value: Buffer.from(JSON.stringify(mark)), header: null, partition: 0 },
      ];
    });
  }
  await writer.close();
}

function eventOf(topic: string, id: number, i: number, op: 'c' | 'u'): OutgoingRecord {
  const cents = String(i % 100).padStart(2, '0');
  const after =
    `{"id":${id},"customer_id":${i % 5000},"status":"${i % 3 === 0 ? 'paid' : 'new'}","total":"${i % 9999}.${cents}",` +
    `"quantity":${i % 17},"email":"user${id}@example.org","created_at":"2024-01-0${(i % 9) + 1}T03:04:05.${100000 + (i % 899999)}Z",` +
    `"note":"order number ${i}, to be sent in one parcel","paid":${i % 2 === 0},"score":${(i % 1000) / 8}}`;
  const value =
    `{"before":null,"after":${after},"source":{"version":"1","connector":"postgresql","name":"${NAME}","ts_ms":1700000000000,` +
    `"snapshot":"false","db":"bench","schema":"public","table":"orders","txId":${i},"lsn":${4294967296 + i},"epoch":1,"ord":0},` +
    `"op":"${op}","ts_ms":1700000000000,"transaction":{"id":"${i}:1","total_order":1,"data_collection_order":1}}`;
  const header = Buffer.alloc(RECORD_HEADER_BYTES);
  header.writeUInt8(1, 0);
  header.writeUInt8(op.charCodeAt(0), 1);
  header.writeUInt32BE(1, 4);
  header.writeBigUInt64BE(0x1_0000_0000n + BigInt(i), 8);
  header.writeUInt32BE(1, 20);
  header.writeBigInt64BE(1_700_000_000_000_000n + BigInt(i), 24);
  return { topic, key: Buffer.from(`{"id":${id}}`), value: Buffer.from(value), header };
}

if (process.argv[1]?.endsWith('stream.ts') === true) {
  const [events = '500000', max = '100000', cdf = 'on'] = process.argv.slice(2);
  const result = await benchStream({
    events: Number(events),
    maxOffsetsPerTrigger: Number(max),
    changeDataFeed: cdf === 'on',
  });
  console.log(JSON.stringify(result, null, 2));
}
