/** Newest events of a table's topic, decoded with the shapes that the reader left in the log. */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { StreamSample, StreamSession } from '../../../contracts/cli/ports.ts';
import type { GateRow } from '../../../contracts/engine/gate.ts';
import { createRecordDecoder } from '../../ingest/record-decoder.ts';
import { createShapeFeed } from '../../ingest/shape-feed.ts';
import { RecordFlags } from '../../log/event.ts';
import type { TableShape } from '../../log/event.ts';
import type { EventLog, PartitionBounds } from '../../log/log.ts';
import type { LogOffset } from '../../log/position.ts';
import { dataTopic } from '../../log/topics.ts';
import { parseConfig } from '../../runtime/config.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';
import { openLog } from '../assemble/log.ts';

interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export async function openStream(file: string | null, place: Place): Promise<StreamSession> {
  const load = (): Config => loadConfig(file, place);
  const config = load();
  const log = await openLog(config, load);
  const shapes = createShapeFeed(log.reader, config.name);
  return {
    async sample(schema, table, window): Promise<StreamSample | null> {
      await shapes.refresh();
      const shape = shapes.latest(schema, table);
      if (shape === null) return null;
      const topic = dataTopic(config.name, schema, table);
      const rows = await newestRows(log, topic, createRecordDecoder(shapes, shape), window);
      return { topic, keys: keysOf(shape), rows };
    },
    close: () => log.close(),
  };
}

function loadConfig(file: string | null, { cwd, env }: Place): Config {
  const name = file ?? 'sluice.yaml';
  const path = resolve(cwd, name);
  if (!existsSync(path))
    throw new ConfigError(`${name} does not exist`, 'name the configuration that has the log with --config');
  return parseConfig({
    text: readFileSync(path, 'utf8'),
    file: name,
    env,
    readFile: (other) => readFileSync(other, 'utf8'),
  });
}

const keysOf = (shape: TableShape): string[] =>
  shape.columns
    .filter(({ keyPosition }) => keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map(({ name }) => name);

const FLAGS_AT = 2;

async function newestRows(
  log: EventLog,
  topic: string,
  decode: ReturnType<typeof createRecordDecoder>,
  { sinceMicros, rowsMax }: { readonly sinceMicros: bigint | null; readonly rowsMax: number },
): Promise<GateRow[]> {
  const bounds = await log.reader.bounds(topic);
  const starts = sinceMicros === null ? null : await log.reader.offsetsAt(topic, Number(sinceMicros / 1000n));
  const found: { readonly at: bigint; readonly row: GateRow }[] = [];
  for (const [partition, bound] of bounds) {
    const from = startOf(bound, starts?.get(partition) ?? null, rowsMax);
    for await (const batch of log.reader.read(topic, partition, from, bound.end)) {
      for (const [index, value] of batch.values.entries()) {
        const header = batch.headers[index] ?? null;
        // A row too large for the log lies in the lake: it is tested there.
        if (value === null || ((header?.[FLAGS_AT] ?? 0) & RecordFlags.claimCheck) !== 0) continue;
        const key = batch.keys[index] ?? null;
        const event = decode({ topic, partition, offset: batch.offsets[index] ?? 0n, key, value, header });
        if (event.op !== 'c' && event.op !== 'u' && event.op !== 'r') continue;
        found.push({ at: event.committedAtMicros, row: { ...event.row } });
      }
      if (found.length > 2 * rowsMax) found.splice(0, found.length - rowsMax);
    }
  }
  return found
    .toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
    .slice(-rowsMax)
    .map(({ row }) => row);
}

function startOf(bound: PartitionBounds, since: LogOffset | null, rowsMax: number): LogOffset {
  const near = bound.end - BigInt(rowsMax);
  const first = since ?? (near as LogOffset);
  return first > bound.earliest ? first : bound.earliest;
}
