/**
 * Offset log and commit log of a query, kept in the lake in Spark's own checkpoint form (Spark: OffsetSeqLog, CommitLog,
 * StreamMetadata; text format v1), so that an unmodified Spark continues from it:
 *
 *   metadata     {"id":"<uuid>"}
 *   offsets/N    v1 \n {"batchWatermarkMs":0,"batchTimestampMs":…,"conf":{…}} \n {"<topic>":{"<partition>":<next offset>}}
 *   commits/N    v1 \n {"nextBatchWatermarkMs":0}
 *
 * `conf` is a map of text in Spark; what a re-run needs beyond the offsets (contract, schema, mark, start offsets) stands in
 * it under `sluice.` keys, which Spark carries and ignores. Offsets/N is written by conditional put before batch N runs.
 */
import { getText } from '../../lakehouse/store/get-text.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { LogOffset } from '../log/position.ts';
import { StreamError } from './stream-error.ts';

export const PLAN_FORMAT = 1;
/** Batches kept in both logs; Spark needs the last two. */
const BATCHES_KEPT = 2;
const PUT_TRIES = 3;
const VERSION_LINE = 'v1';

/** A batch as it was written down. */
export interface BatchPlan {
  readonly batchId: bigint;
  /** ms since 1970: the batch's clock, also on a re-run. */
  readonly timestampMs: number;
  readonly topic: string;
  /** Start of each partition that the batch reads. */
  readonly from: ReadonlyMap<number, LogOffset>;
  /** Next offset of *every* partition once the batch is done. */
  readonly to: ReadonlyMap<number, LogOffset>;
  /** What the query must find again on a re-run: hashes of contract and schema, the mark. Text values. */
  readonly conf: Readonly<Record<string, string>>;
}

export interface Checkpoint {
  /** The query's identity: made once, kept as long as the checkpoint is. */
  id(): Promise<string>;
  /** Newest plan, or null in an empty checkpoint. */
  latestPlan(): Promise<BatchPlan | null>;
  plan(batchId: bigint): Promise<BatchPlan | null>;
  /** Newest id in the commit log, or null. */
  latestCommit(): Promise<bigint | null>;
  /** Writes a plan down. Returns what stands there: another plan of the same number (a lost race, an earlier run) wins. */
  writePlan(plan: BatchPlan): Promise<BatchPlan>;
  /** Puts another plan in the place of one of which nothing was committed. */
  replacePlan(plan: BatchPlan): Promise<void>;
  /** Notes that the batch is done, and lets go of batches that nobody needs any more. */
  writeCommit(batchId: bigint): Promise<void>;
}

/** `path` is the checkpoint's folder inside `store`. `newId` is asked only when there is none yet. */
export function openCheckpoint(store: ObjectStore, path: string, newId: () => string): Checkpoint {
  let known: string | null = null;
  const offsetKey = (id: bigint): string => `${path}/offsets/${id}`;
  const commitKey = (id: bigint): string => `${path}/commits/${id}`;

  async function id(): Promise<string> {
    if (known !== null) return known;
    const key = `${path}/metadata`;
    const fresh = JSON.stringify({ id: newId() });
    const outcome = await putOnce(store, key, fresh);
    const text = outcome ?? fresh;
    const parsed = parseJson(text, key);
    if (typeof parsed['id'] !== 'string') throw corrupt(key, 'it has no id');
    known = parsed['id'];
    return known;
  }

  async function plan(batchId: bigint): Promise<BatchPlan | null> {
    const text = await getText(store, offsetKey(batchId));
    return text === null ? null : decodePlan(batchId, text, offsetKey(batchId));
  }

  return {
    id,
    plan,
    async latestPlan() {
      const newest = await newestNumber(store, `${path}/offsets/`);
      return newest === null ? null : plan(newest);
    },
    latestCommit: () => newestNumber(store, `${path}/commits/`),
    async writePlan(wanted) {
      const standing = await putOnce(store, offsetKey(wanted.batchId), encodePlan(wanted));
      return standing === null ? wanted : decodePlan(wanted.batchId, standing, offsetKey(wanted.batchId));
    },
    replacePlan: (wanted) => store.put(offsetKey(wanted.batchId), Buffer.from(encodePlan(wanted))),
    async writeCommit(batchId) {
      await store.put(commitKey(batchId), Buffer.from(`${VERSION_LINE}\n{"nextBatchWatermarkMs":0}`));
      const old = batchId - BigInt(BATCHES_KEPT);
      if (old >= 0n) await store.delete([offsetKey(old), commitKey(old)]);
    },
  };
}

export function encodePlan(plan: BatchPlan): string {
  const conf = {
    ...plan.conf,
    'sluice.format': String(PLAN_FORMAT),
    'sluice.from': offsetsJson(plan.topic, plan.from),
  };
  const metadata = `{"batchWatermarkMs":0,"batchTimestampMs":${plan.timestampMs},"conf":${JSON.stringify(conf)}}`;
  return `${VERSION_LINE}\n${metadata}\n${offsetsJson(plan.topic, plan.to)}`;
}

export function decodePlan(batchId: bigint, text: string, key: string): BatchPlan {
  const [version, metadataLine, offsetLine] = text.split('\n');
  if (version !== VERSION_LINE) {
    if (/^v\d+$/.test(version ?? ''))
      throw new StreamError(
        'FORMAT_NEWER',
        `${key} has format ${version}`,
        'run the version of the program that wrote it',
      );
    throw corrupt(key, 'its first line is no version');
  }
  if (metadataLine === undefined || offsetLine === undefined) throw corrupt(key, 'it ends early');
  const metadata = parseJson(metadataLine, key);
  const conf = metadata['conf'];
  const timestampMs = metadata['batchTimestampMs'];
  if (typeof timestampMs !== 'number' || typeof conf !== 'object' || conf === null)
    throw corrupt(key, 'its metadata lacks batchTimestampMs or conf');
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(conf)) if (typeof value === 'string') texts[name] = value;
  const format = Number(texts['sluice.format'] ?? PLAN_FORMAT);
  if (format > PLAN_FORMAT)
    throw new StreamError(
      'FORMAT_NEWER',
      `${key} has plan format ${format}`,
      'run the version of the program that wrote it',
    );
  const to = parseOffsets(offsetLine, key);
  const from = texts['sluice.from'] === undefined ? null : parseOffsets(texts['sluice.from'], key);
  delete texts['sluice.format'];
  delete texts['sluice.from'];
  return { batchId, timestampMs, topic: to.topic, from: from?.offsets ?? new Map(), to: to.offsets, conf: texts };
}

/** Spark's JsonUtils.partitionOffsets. Written by hand: offsets are bigint. */
function offsetsJson(topic: string, offsets: ReadonlyMap<number, LogOffset>): string {
  const parts = [...offsets].sort(([a], [b]) => a - b).map(([partition, offset]) => `"${partition}":${offset}`);
  return `{${JSON.stringify(topic)}:{${parts.join(',')}}}`;
}

function parseOffsets(text: string, key: string): { topic: string; offsets: Map<number, LogOffset> } {
  const match = /^\{("(?:[^"\\]|\\.)*"):\{([^{}]*)\}\}$/.exec(text.trim());
  if (match === null) throw corrupt(key, 'its offset line is not {"topic":{"partition":offset}}');
  const offsets = new Map<number, LogOffset>();
  for (const pair of (match[2] ?? '').split(',')) {
    if (pair.trim() === '') continue;
    const entry = /^\s*"(\d+)"\s*:\s*(\d+)\s*$/.exec(pair);
    if (entry === null) throw corrupt(key, 'an offset is no number');
    offsets.set(Number(entry[1]), BigInt(entry[2] ?? '0') as LogOffset);
  }
  return { topic: JSON.parse(match[1] ?? '""') as string, offsets };
}

/**
 * Null when stored; otherwise the text that stands there. A lost answer is settled by reading back. What stood there may be let
 * go of before it is read, where another worker has taken the query over and is two batches on: then ours is put after all, and
 * the sink, which knows what it has, refuses the batch.
 */
async function putOnce(store: ObjectStore, key: string, text: string): Promise<string | null> {
  for (let tries = 1; tries <= PUT_TRIES; tries++) {
    try {
      if ((await store.putIfAbsent(key, Buffer.from(text))) === 'created') return null;
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'STORE_OUTCOME_UNKNOWN') throw error;
      const standing = await getText(store, key);
      if (standing === null) throw error;
      return standing === text ? null : standing;
    }
    const standing = await getText(store, key);
    if (standing !== null) return standing === text ? null : standing;
  }
  throw corrupt(key, 'it vanished between two reads');
}

async function newestNumber(store: ObjectStore, prefix: string): Promise<bigint | null> {
  let newest: bigint | null = null;
  for await (const { key } of store.list(prefix)) {
    const name = key.slice(prefix.length);
    if (!/^\d+$/.test(name)) continue;
    const number = BigInt(name);
    if (newest === null || number > newest) newest = number;
  }
  return newest;
}

function parseJson(text: string, key: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch (cause) {
    throw corrupt(key, 'it is not JSON', cause);
  }
  throw corrupt(key, 'it is not a JSON object');
}

function corrupt(key: string, why: string, cause?: unknown): StreamError {
  return new StreamError(
    'CHECKPOINT_CORRUPT',
    `checkpoint file ${key}: ${why}`,
    'delete the checkpoint folder: the table itself knows its position',
    { cause },
  );
}
