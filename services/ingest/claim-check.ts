/** Rows above the log's record limit lie in the lake; their records hold a claim: {"sluiceClaim": {key, bytes, sha256}}. */
import { createHash } from 'node:crypto';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { RecordFlags } from '../log/event.ts';
import type { LogBatch } from '../log/log.ts';
import { StreamError } from '../stream/stream-error.ts';

/** The batch with every claim replaced by what it stands for; the batch itself when it has none. */
export async function fetchClaims(batch: LogBatch, store: ObjectStore): Promise<LogBatch> {
  let values: (Buffer | null)[] | null = null;
  for (let i = 0; i < batch.headers.length; i++) {
    const value = batch.values[i] ?? null;
    if (!isClaim(batch.headers[i] ?? null) || value === null) continue;
    values ??= [...batch.values];
    values[i] = await fetchClaim(value, store, `${batch.topic}[${batch.partition}] offset ${batch.offsets[i]}`);
  }
  return values === null ? batch : { ...batch, values };
}

export function isClaim(header: Buffer | null): boolean {
  return header !== null && header.length > 2 && (header.readUInt8(2) & RecordFlags.claimCheck) !== 0;
}

export async function fetchClaim(value: Buffer, store: ObjectStore, place: string): Promise<Buffer> {
  const { sluiceClaim: claim } = JSON.parse(value.toString('utf8')) as {
    readonly sluiceClaim?: { readonly key?: string; readonly bytes?: number; readonly sha256?: string };
  };
  if (claim?.key === undefined || !claim.key.startsWith('_sluice/large/'))
    throw new StreamError(
      'OFFSETS_EXPIRED',
      `${place}: a claim check without a key`,
      'take the row again by a backfill',
    );
  const body = Buffer.from(await store.get(claim.key));
  const sha256 = createHash('sha256').update(body).digest('hex');
  if (body.length === claim.bytes && sha256 === claim.sha256) return body;
  throw new StreamError(
    'OFFSETS_EXPIRED',
    `${place}: ${claim.key} is not what the claim check says (${body.length} bytes, expected ${claim.bytes})`,
    'take the row again by a backfill',
  );
}
