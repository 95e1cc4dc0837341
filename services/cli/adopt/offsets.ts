/**
 * Where reading of a topic goes on: offsets as somebody wrote them down, or as a Spark query's checkpoint has them. An offset
 * is the next one to read, as in Spark's offset log.
 */
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { LogOffset } from '../../log/position.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';

/** Topic → partition → next offset. */
export type TopicOffsets = ReadonlyMap<string, ReadonlyMap<number, LogOffset>>;

const HOW =
  'write topic:partition:offset, with commas or newlines between, or name a file with such lines or JSON {"topic":{"0":123}}';

/** `--offsets`: a file, or the offsets themselves. @throws ConfigError */
export function readOffsets(given: string, cwd: string): TopicOffsets {
  const path = resolve(cwd, given);
  const text = statSync(path, { throwIfNoEntry: false })?.isFile() === true ? readFileSync(path, 'utf8') : given;
  return text.trimStart().startsWith('{') ? offsetsOfJson(text, given) : offsetsOfLines(text, given);
}

function offsetsOfLines(text: string, shown: string): TopicOffsets {
  const out = new Map<string, Map<number, LogOffset>>();
  for (const part of text.split(/[,\n]/).map((line) => line.trim())) {
    if (part === '' || part.startsWith('#')) continue;
    const match = /^(.+):(\d{1,9}):(\d{1,18})$/.exec(part);
    if (match === null) throw new ConfigError(`--offsets ${shown}: '${part}' is no place in a topic`, HOW);
    put(out, match[1] ?? '', Number(match[2]), BigInt(match[3] ?? '0'), shown);
  }
  if (out.size === 0) throw new ConfigError(`--offsets ${shown} names no offset`, HOW);
  return out;
}

function put(
  out: Map<string, Map<number, LogOffset>>,
  topic: string,
  partition: number,
  offset: bigint,
  shown: string,
): void {
  const partitions = out.get(topic) ?? new Map<number, LogOffset>();
  if (partitions.has(partition))
    throw new ConfigError(`--offsets ${shown}: partition ${partition} of ${topic} stands there twice`, HOW);
  partitions.set(partition, offset as LogOffset);
  out.set(topic, partitions);
}

/** Numbers of JSON above 2^53 would lose digits: offsets are taken as they are written. */
function offsetsOfJson(text: string, shown: string): TopicOffsets {
  const out = new Map<string, Map<number, LogOffset>>();
  let parsed: unknown;
  try {
    parsed = JSON.parse(text.replaceAll(/:\s*(\d{1,18})(?=\s*[,}])/g, ':"$1"'));
  } catch (cause) {
    throw new ConfigError(`${shown}: the offsets are not JSON`, HOW, cause);
  }
  for (const [topic, partitions] of Object.entries((parsed ?? {}) as Record<string, unknown>))
    for (const [partition, offset] of Object.entries((partitions ?? {}) as Record<string, unknown>)) {
      if (!/^\d{1,9}$/.test(partition) || typeof offset !== 'string' || !/^\d{1,18}$/.test(offset))
        throw new ConfigError(`${shown}: partition '${partition}' of ${topic} has no offset to go on from`, HOW);
      put(out, topic, Number(partition), BigInt(offset), shown);
    }
  if (out.size === 0) throw new ConfigError(`${shown} names no offset`, HOW);
  return out;
}

export interface SparkCheckpoint {
  /** The query's id: Spark's Delta sink writes it as the table's `txn`. */
  readonly queryId: string;
  /** Newest batch that the query finished. */
  readonly batchId: bigint;
  readonly offsets: TopicOffsets;
}

/** The newest finished batch of a Structured Streaming query. `store` is rooted at its folder. @throws SluiceError ADOPT_POSITION */
export async function readSparkCheckpoint(store: ObjectStore): Promise<SparkCheckpoint> {
  const unusable = (what: string): SluiceError =>
    new SluiceError('ADOPT_POSITION', `${store.uri}: ${what}`, {
      exit: ExitCode.usage,
      remedy: 'name the checkpointLocation of the query that wrote the table, or give --offsets',
    });
  const committed = (await numbersIn(store, 'commits/')).at(-1);
  if (committed === undefined)
    throw unusable('no commits/N stands there: the query finished no batch, or this is no checkpoint');
  const text = async (key: string): Promise<string> => Buffer.from(await store.get(key)).toString('utf8');
  const [version, , ...sources] = (await text(`offsets/${committed}`)).split('\n');
  if (version !== 'v1') throw unusable(`offsets/${committed} has format ${version ?? ''}; v1 is read`);
  const offsets = new Map<string, ReadonlyMap<number, LogOffset>>();
  for (const source of sources.filter((line) => line.startsWith('{')))
    for (const [topic, partitions] of offsetsOfJson(source, `offsets/${committed}`)) offsets.set(topic, partitions);
  if (offsets.size === 0) throw unusable(`offsets/${committed} has no Kafka source`);
  const { id } = JSON.parse(await text('metadata')) as { readonly id?: string };
  if (id === undefined) throw unusable('metadata has no id');
  return { queryId: id, batchId: committed, offsets };
}

async function numbersIn(store: ObjectStore, prefix: string): Promise<readonly bigint[]> {
  const out: bigint[] = [];
  for await (const { key } of store.list(prefix)) {
    const name = key.slice(prefix.length);
    if (/^\d{1,18}$/.test(name)) out.push(BigInt(name));
  }
  return out.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}
