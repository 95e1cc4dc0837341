/** The quarantine table's schema, and the id of a parked event. */
import { createHash } from 'node:crypto';
import type { StructField, StructType } from '../../lakehouse/table/schema.ts';
import type { RawRecord } from './ingest-batch.ts';

export const QUARANTINE_FORMAT = 1;

/** `parked`: waits. `healed`: a newer event made the key right. `released`: applied by a retry. `dropped`: given up by a person. */
export type QuarantineStatus = 'parked' | 'healed' | 'released' | 'dropped';

const field = (name: string, type: StructField['type']): StructField => ({ name, type, nullable: true, metadata: {} });
const texts = { type: 'array', elementType: 'string', containsNull: true } as const;

/** `<table>__quarantine`, keyed by `id`. Everything needed to run an event again stands in its row. */
export const QUARANTINE_SCHEMA: StructType = {
  type: 'struct',
  fields: [
    field('id', 'string'),
    field('format_version', 'integer'),
    field('status', 'string'),
    field('status_changed_at', 'timestamp'),
    field('attempts', 'integer'),
    field('batch_id', 'long'),
    field('quarantined_at', 'timestamp'),
    field('rule_ids', texts),
    field('codes', texts),
    field('columns', texts),
    field('messages', texts),
    field('value', 'string'),
    field('contract_id', 'string'),
    field('contract_version', 'string'),
    field('contract_hash', 'string'),
    field('op', 'string'),
    field('key', 'string'),
    field('absent_columns', texts),
    field('topic', 'string'),
    field('partition', 'integer'),
    field('offset', 'long'),
    field('epoch', 'integer'),
    field('lsn', 'long'),
    field('ord', 'integer'),
    field('shape_version', 'integer'),
    field('committed_at', 'timestamp'),
    field('record_key', 'binary'),
    field('record_value', 'binary'),
    field('record_header', 'binary'),
  ],
};

/** The same record always gets the same id, so that a batch which runs again parks nothing twice. */
export function quarantineId(record: Pick<RawRecord, 'topic' | 'partition' | 'offset'>): string {
  return createHash('sha256')
    .update(`${record.topic}\n${record.partition}\n${record.offset}`)
    .digest('hex')
    .slice(0, 32);
}
