/** How the stream asks the reader for rows: by a call in one process, by the log between two. */
import { randomUUID } from 'node:crypto';
import type { RequestRows } from '../../ingest/base-requests.ts';
import { LogError, type EventLog, type LogWriter } from '../../log/log.ts';
import { decodeRowRequest, requestTopic, rowRequestRecord } from '../../log/row-requests.ts';
import type { ReaderHandle } from '../../reader/reader-options.ts';
import type { Config } from '../../runtime/config.ts';
import type { Logger } from '../../runtime/logger.ts';

export interface RowRequests {
  /** Null: nobody can be asked. */
  readonly request: RequestRows | null;
  close(): Promise<void>;
}

export interface RowRequestParts {
  readonly log: EventLog;
  readonly config: Config;
  /** The reader of this process, if it is one. */
  readonly reader: ReaderHandle | null;
  readonly logger: Logger;
}

/** The embedded log belongs to one process, in which both halves are: there is no other stream to serve. */
export function rowRequests({ log, config, reader, logger }: RowRequestParts): RowRequests {
  if (config.log.kind === 'embedded')
    return { request: reader === null ? null : requestFrom(reader), close: () => Promise.resolve() };
  if (reader === null) return requestsByLog(log, config, randomUUID());
  const stop = new AbortController();
  const served = serveRequests(log, config, reader, logger, stop.signal);
  return {
    request: requestFrom(reader),
    async close() {
      stop.abort();
      await served;
    },
  };
}

/** A key that is no row of the source any more becomes a delete at the same place. */
function requestFrom(reader: ReaderHandle): RequestRows {
  return (schema, table, keys) => reader.fetchKeys(schema, table, keys, true);
}

/** Requests by the log; the writer is opened with the first, under a name of its own, so that it fences nobody. */
function requestsByLog(log: EventLog, config: Config, runId: string): RowRequests {
  let opened: Promise<LogWriter> | null = null;
  const open = async (): Promise<LogWriter> => {
    await ensureTopic(log, config);
    return log.writer(`${config.name}-requests-${runId}`);
  };
  return {
    async request(schema, table, keys) {
      opened ??= open();
      try {
        await (await opened).append([rowRequestRecord(config.name, { schema, table, keys })]);
      } catch (error) {
        const failed = opened;
        opened = null;
        await failed.then((writer) => writer.close()).catch(() => undefined);
        throw error;
      }
    },
    async close() {
      await opened?.then((writer) => writer.close()).catch(() => undefined);
    },
  };
}

const AGAIN_MS = 1_000;

/** Reads the rows that are asked for, until the signal. What is asked while no reader runs is asked again by its sender. */
async function serveRequests(
  log: EventLog,
  config: Config,
  reader: ReaderHandle,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await ensureTopic(log, config);
      const bounds = (await log.reader.bounds(requestTopic(config.name))).get(0);
      if (bounds === undefined)
        throw new LogError('LOG_TOPIC_MISSING', `there is no topic ${requestTopic(config.name)}`);
      for await (const batch of log.reader.follow(requestTopic(config.name), 0, bounds.end, { signal }))
        for (const value of batch.values) if (value !== null) await serve(value, config, reader, logger);
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ err: error }, 'requests for rows cannot be read; trying again');
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS).unref());
    }
  }
}

async function serve(value: Buffer, config: Config, reader: ReaderHandle, logger: Logger): Promise<void> {
  // Another reader owns the slot: it reads this topic, too.
  if (reader.status().phase === 'standby') return;
  try {
    const { schema, table, keys } = decodeRowRequest(value, config.name);
    const rows = await reader.fetchKeys(schema, table, keys, true);
    logger.info({ table: `${schema}.${table}`, keys: keys.length, rows }, 'rows were asked for and read');
  } catch (error) {
    logger.warn({ err: error }, 'a request for rows was not served; its sender asks again');
  }
}

async function ensureTopic(log: EventLog, config: Config): Promise<void> {
  await log.admin.ensureTopics({
    [requestTopic(config.name)]: {
      partitions: 1,
      replicationFactor: config.log.replicationFactor,
      retentionMs: 3_600_000,
      compacted: false,
    },
  });
}
