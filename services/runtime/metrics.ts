/** Prometheus metrics: names are constants here and every counter starts at 0, so that an alert sees its first rise. */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

export interface Metrics {
  readonly registry: Registry;
  readonly readerRecords: Counter<'table'>;
  readonly readerBytes: Counter;
  readonly readerConfirmedLsn: Gauge;
  readonly readerReceivedLsn: Gauge;
  readonly slotRetainedBytes: Gauge;
  readonly streamRows: Counter<'table' | 'outcome'>;
  readonly streamBatches: Counter<'table'>;
  readonly streamBatchSeconds: Histogram<'table'>;
  readonly lagBytes: Gauge<'table'>;
  readonly lagSeconds: Gauge<'table'>;
  readonly committedLsn: Gauge<'table'>;
  readonly tableState: Gauge<'table' | 'state'>;
  readonly trouble: Gauge<'state'>;
  readonly storeRequests: Counter<'operation'>;
  readonly verifyMismatches: Counter<'table'>;
  readonly verifyCoverage: Gauge<'table'>;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  return {
    registry,
    readerRecords: new Counter({
      name: 'sluice_reader_records_total',
      help: 'Row events written to the log',
      labelNames: ['table'],
      registers,
    }),
    readerBytes: new Counter({
      name: 'sluice_reader_bytes_total',
      help: 'Envelope bytes written to the log',
      registers,
    }),
    readerConfirmedLsn: new Gauge({
      name: 'sluice_reader_confirmed_lsn',
      help: 'LSN confirmed to PostgreSQL',
      registers,
    }),
    readerReceivedLsn: new Gauge({
      name: 'sluice_reader_received_lsn',
      help: 'Newest LSN received from PostgreSQL',
      registers,
    }),
    slotRetainedBytes: new Gauge({
      name: 'sluice_slot_retained_bytes',
      help: 'WAL that the slot holds back',
      registers,
    }),
    streamRows: new Counter({
      name: 'sluice_stream_rows_total',
      help: 'Events by what became of them',
      labelNames: ['table', 'outcome'],
      registers,
    }),
    streamBatches: new Counter({
      name: 'sluice_stream_batches_total',
      help: 'Batches committed',
      labelNames: ['table'],
      registers,
    }),
    streamBatchSeconds: new Histogram({
      name: 'sluice_stream_batch_seconds',
      help: 'Time of one batch from plan to commit',
      labelNames: ['table'],
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    lagBytes: new Gauge({
      name: 'sluice_lag_bytes',
      help: 'WAL bytes between the source and the lake',
      labelNames: ['table'],
      registers,
    }),
    lagSeconds: new Gauge({
      name: 'sluice_lag_seconds',
      help: 'Age of the newest committed change, in the clock of the source',
      labelNames: ['table'],
      registers,
    }),
    committedLsn: new Gauge({
      name: 'sluice_committed_lsn',
      help: 'LSN committed in the lake',
      labelNames: ['table'],
      registers,
    }),
    trouble: new Gauge({
      name: 'sluice_trouble',
      help: '1 for each trouble that holds up reader, stream or a table and passes by itself once it is mended',
      labelNames: ['state'],
      registers,
    }),
    tableState: new Gauge({
      name: 'sluice_table_state',
      help: '1 for the state a table is in',
      labelNames: ['table', 'state'],
      registers,
    }),
    storeRequests: new Counter({
      name: 'sluice_store_requests_total',
      help: 'Object store requests',
      labelNames: ['operation'],
      registers,
    }),
    verifyMismatches: new Counter({
      name: 'sluice_verify_mismatches_total',
      help: 'Rows that differed between source and lake',
      labelNames: ['table'],
      registers,
    }),
    verifyCoverage: new Gauge({
      name: 'sluice_verify_coverage_ratio',
      help: 'Share of the table verified in this round',
      labelNames: ['table'],
      registers,
    }),
  };
}
