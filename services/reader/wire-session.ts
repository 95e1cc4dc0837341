/**
 * An authenticated PostgreSQL connection, spoken to in the simple query protocol, with our own framing: the driver's parser
 * makes an object and an event a row, and its buffers are written again. Here rows and WAL stay byte ranges of the chunk
 * that the socket gave us. Source: PostgreSQL docs, "Message Flow" and "Streaming Replication Protocol".
 */
import type { Duplex } from 'node:stream';
import { ReaderError } from './reader-error.ts';
import { parseErrorFields, serverError } from './server-error.ts';
import { runReplication } from './replication-stream.ts';
import type { DataRowHandler, ReplicationOptions, ReplicationSession, ReplicationStream, TextRow } from './source.ts';
import { cString, Frame, type WireChannel, type WireCommand } from './wire-channel.ts';
import { createFrameSplitter, type FrameHandler } from './wire-frames.ts';

export interface WireInfo {
  readonly backendPid: number;
  readonly purpose: string;
  /** The driver's own way to end the connection. */
  end(): Promise<void>;
}

const END_WAIT_MS = 1_000;
const TRANSACTION_TIMEOUT_SINCE = 170_000;

export interface WireSession extends ReplicationSession {
  /** Asks for the server's version; to be called once, first. */
  open(): Promise<void>;
}

export function createWireSession(socket: Duplex, info: WireInfo): WireSession {
  let command: WireCommand | null = null;
  let failure: ReaderError | null = null;
  let lost: ReaderError | null = null;
  let ended = false;
  let serverVersion = 0;
  let turn: Promise<unknown> = Promise.resolve();

  const fail = (error: ReaderError): void => {
    if (lost !== null) return;
    lost = error;
    const running = command;
    command = null;
    running?.settle(error);
    socket.destroy();
  };

  const splitter = createFrameSplitter((tag, bytes, start, end) => {
    if (tag === Frame.error) {
      failure ??= serverError(parseErrorFields(bytes, start, end), command?.what ?? info.purpose);
      return;
    }
    if (tag !== Frame.ready) {
      command?.frame(tag, bytes, start, end);
      return;
    }
    const finished = command;
    const error = failure;
    command = null;
    failure = null;
    finished?.settle(error);
  });

  const channel: WireChannel = {
    socket,
    purpose: info.purpose,
    onChunkEnd: null,
    send(tag, body) {
      if (lost !== null || socket.destroyed || !socket.writable) return;
      const head = Buffer.allocUnsafe(5);
      head.writeUInt8(tag.charCodeAt(0), 0);
      head.writeUInt32BE(body.length + 4, 1);
      socket.write(Buffer.concat([head, body]));
    },
    run(next) {
      if (lost === null && !ended) command = next;
      else next.settle(lost ?? new ReaderError('SOURCE_LOST', `${info.purpose}: the connection is closed`));
    },
    end: close,
  };

  socket.removeAllListeners('data');
  socket.on('data', (chunk: Buffer) => {
    try {
      splitter.push(chunk);
      channel.onChunkEnd?.();
    } catch (error) {
      fail(
        error instanceof ReaderError
          ? error
          : new ReaderError('SOURCE_LOST', `${info.purpose}: a message of the server could not be handled`, {
              cause: error,
            }),
      );
    }
  });
  const onLost = (cause?: unknown): void => {
    // A server that is being shut down sends its reason first; it is the better message.
    fail(
      failure ?? new ReaderError('SOURCE_LOST', `${info.purpose}: the connection to PostgreSQL was lost`, { cause }),
    );
  };
  socket.on('error', onLost);
  socket.on('close', () => onLost());

  async function close(): Promise<void> {
    if (ended) return;
    ended = true;
    lost ??= new ReaderError('SOURCE_LOST', `${info.purpose}: the connection was closed by the reader`);
    const running = command;
    command = null;
    running?.settle(lost);
    socket.resume();
    // The server may be busy sending and not read our goodbye for long.
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, END_WAIT_MS);
    });
    await Promise.race([info.end().catch(() => undefined), late]);
    clearTimeout(timer);
    socket.destroy();
  }

  /** One command at a time; a failed one does not hold up the next. */
  const exclusive = async <T>(work: () => Promise<T>): Promise<T> => {
    const result = turn.then(work, work);
    turn = result.catch(() => undefined);
    return result;
  };
  const simpleQuery = async (sql: string, frame: FrameHandler): Promise<void> =>
    new Promise((resolve, reject) => {
      channel.run({
        what: info.purpose,
        frame,
        settle: (error) => {
          if (error === null) resolve();
          else reject(error);
        },
      });
      channel.send('Q', cString(sql));
    });

  return {
    get serverVersion() {
      return serverVersion;
    },
    async open() {
      const [row] = await collectRows('SHOW server_version_num', simpleQuery);
      serverVersion = Number(row?.['server_version_num'] ?? 0);
      // As the other limits of SESSION_SETTINGS; older servers do not know it, and would refuse the connection.
      if (serverVersion >= TRANSACTION_TIMEOUT_SINCE) await collectRows('SET transaction_timeout = 0', simpleQuery);
    },
    backendPid: info.backendPid,
    get closed() {
      return lost !== null;
    },
    query: async (sql) => exclusive(async () => collectRows(sql, simpleQuery)),
    rows: async (sql, onRow) => exclusive(async () => passRows(sql, onRow, simpleQuery)),
    start: async (options: ReplicationOptions): Promise<ReplicationStream> =>
      exclusive(async () => runReplication(channel, options)),
    close,
  };
}

type Run = (sql: string, frame: FrameHandler) => Promise<void>;

async function collectRows(sql: string, run: Run): Promise<readonly TextRow[]> {
  let names: readonly string[] = [];
  let rows: TextRow[] = [];
  await run(sql, (tag, bytes, start, end) => {
    if (tag === Frame.rowDescription) {
      names = columnNames(bytes, start);
      rows = [];
    } else if (tag === Frame.dataRow) rows.push(textRow(names, bytes, start, end));
  });
  return rows;
}

async function passRows(sql: string, onRow: DataRowHandler, run: Run): Promise<number> {
  let count = 0;
  await run(sql, (tag, bytes, start, end) => {
    if (tag !== Frame.dataRow) return;
    count++;
    onRow(bytes, start, end);
  });
  return count;
}

function columnNames(bytes: Buffer, start: number): readonly string[] {
  const names: string[] = [];
  let at = start + 2;
  for (let left = bytes.readUInt16BE(start); left > 0; left--) {
    const stop = bytes.indexOf(0, at);
    names.push(bytes.toString('utf8', at, stop));
    // Behind the name: table OID 4, attribute 2, type OID 4, size 2, modifier 4, format 2.
    at = stop + 19;
  }
  return names;
}

function textRow(names: readonly string[], bytes: Buffer, start: number, end: number): TextRow {
  const row: Record<string, string | null> = {};
  let at = start + 2;
  for (const name of names) {
    if (at + 4 > end) break;
    const length = bytes.readInt32BE(at);
    at += 4;
    row[name] = length < 0 ? null : bytes.toString('utf8', at, at + length);
    if (length > 0) at += length;
  }
  return row;
}
