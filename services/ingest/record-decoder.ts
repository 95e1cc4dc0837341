/** Picks the decoder of the shape that was in force when a record was written. */
import { applyPrivacy, PrivacyError } from '../../contracts/engine/privacy.ts';
import type { PrivacyPlan } from '../../contracts/engine/privacy.ts';
import { createEnvelopeDecoder, decodeRecord, shapeVersionOf } from '../log/envelope-decode.ts';
import type { EnvelopeDecoder } from '../log/envelope-decode.ts';
import type { TableShape } from '../log/event.ts';
import type { LogBatch } from '../log/log.ts';
import { rowBlockShape } from '../log/row-block.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { RecordDecoder } from './decode-batch.ts';
import type { RawRecord } from './ingest-batch.ts';

export interface ShapeLookup {
  byVersion(version: number): TableShape | null;
}

/** `fallback` decodes records that name no shape (tombstones, other writers' records). */
export function createRecordDecoder(shapes: ShapeLookup, fallback: TableShape): RecordDecoder {
  const decoders = new Map<number, EnvelopeDecoder>([[0, createEnvelopeDecoder(fallback)]]);
  let version = -1;
  let decoder = decoders.get(0) as EnvelopeDecoder;
  function pick(wanted: number): void {
    version = wanted;
    const known = decoders.get(wanted);
    if (known !== undefined) {
      decoder = known;
      return;
    }
    const shape = shapes.byVersion(wanted);
    if (shape === null) throw unknownShape(fallback, wanted);
    decoder = createEnvelopeDecoder(shape);
    decoders.set(wanted, decoder);
  }
  return (record: RawRecord) => {
    const wanted = shapeVersionOf(record.header);
    if (wanted !== version) pick(wanted);
    return decodeRecord(decoder, record.key, record.value, record.header, record);
  };
}

/**
 * What the contract keeps out of the log, and stands there from before it said so (or was written there by others), is
 * replaced as if it had never been there: ahead of the gate, of keys and of everything that is kept of the event.
 */
export function hidingDecoder(decode: RecordDecoder, plan: PrivacyPlan | null): RecordDecoder {
  if (plan === null) return decode;
  return (record) => {
    const event = decode(record);
    try {
      applyPrivacy(plan, event.row, event.replaced);
      if (event.otherKey !== null) applyPrivacy(plan, event.otherKey, event.replaced);
    } catch (error) {
      if (!(error instanceof PrivacyError)) throw error;
      throw new StreamError(
        'CONTRACT_FAILED',
        `${record.topic}: an event from before its contract kept values out of the log: ${error.message}`,
        'set privacy.key to the key that the reader has, then resume the table',
        { cause: error },
      );
    }
    return event;
  };
}

/** Shape versions in a batch that are not known yet. */
export function unknownShapes(batch: LogBatch, shapes: ShapeLookup): boolean {
  if (batch.block !== undefined) return shapes.byVersion(rowBlockShape(batch.block.bytes)) === null;
  let last = 0;
  for (const header of batch.headers) {
    const version = shapeVersionOf(header);
    if (version === last || version === 0) continue;
    if (shapes.byVersion(version) === null) return true;
    last = version;
  }
  return false;
}

function unknownShape(table: TableShape, version: number): StreamError {
  return new StreamError(
    'SCHEMA_CONFLICT',
    `table ${table.schema}.${table.table}: a record names shape ${version}, which the reader's topic does not have`,
    'let the reader write its state again (restart it), or take a new snapshot of the table',
  );
}
