/**
 * CopyBoth mode: WAL in, standby status updates out. Nothing is ever confirmed here by itself; the timer only repeats the
 * last position that the acker gave, so that wal_sender_timeout does not end a reader that is held up by its log.
 * Source: PostgreSQL docs, "Streaming Replication Protocol": XLogData (w), Primary keepalive (k), Standby status update (r).
 */
import { formatLsn } from '../log/position.ts';
import { ReaderError } from './reader-error.ts';
import type { ReplicationHandlers, ReplicationOptions, ReplicationStream } from './source.ts';
import { quoteIdent, quoteLiteral } from './sql-text.ts';
import { cString, Frame, type WireChannel } from './wire-channel.ts';

const STATUS_INTERVAL_MS = 5_000;
const CLOSE_WAIT_MS = 1_000;
/** µs between 1970-01-01 and 2000-01-01. */
export const POSTGRES_EPOCH_MICROS = 946_684_800_000_000n;

const XLOG_DATA = 0x77;
const KEEPALIVE = 0x6b;
const XLOG_HEADER_BYTES = 25;

export async function runReplication(channel: WireChannel, options: ReplicationOptions): Promise<ReplicationStream> {
  const { slot, startLsn, handlers } = options;
  let begun: ((stream: ReplicationStream) => void) | null = null;
  let refused: ((error: ReaderError) => void) | null = null;
  let over: (error: ReaderError | null) => void = () => undefined;
  const ended = new Promise<void>((resolve, reject) => {
    over = (error) => {
      if (error === null) resolve();
      else reject(error);
    };
  });
  ended.catch(() => undefined);

  const started = new Promise<ReplicationStream>((resolve, reject) => {
    begun = resolve;
    refused = reject;
  });
  const state = { confirmed: startLsn, closing: false, timer: null as NodeJS.Timeout | null };
  const stream = openStream(channel, state, ended);

  channel.run({
    what: `START_REPLICATION on slot "${slot}"`,
    frame(tag, bytes, start, end) {
      if (tag === Frame.copyData) {
        if (!state.closing) copyData(handlers, bytes, start, end);
      } else if (tag === Frame.copyBoth) {
        state.timer = setInterval(() => sendStatus(channel, state.confirmed), STATUS_INTERVAL_MS);
        channel.onChunkEnd = () => {
          if (!state.closing) handlers.chunkEnd();
        };
        begun?.(stream);
        begun = null;
      } else if (tag === Frame.copyDone && !state.closing) {
        throw new ReaderError('SOURCE_LOST', `slot "${slot}": the server ended the replication stream`);
      }
    },
    settle(error) {
      if (state.timer !== null) clearInterval(state.timer);
      channel.onChunkEnd = null;
      const reason = error ?? new ReaderError('SOURCE_LOST', `slot "${slot}": the replication stream ended`);
      if (begun !== null) refused?.(reason);
      over(state.closing ? null : reason);
    },
  });
  channel.send('Q', cString(startCommand(options)));
  return started;
}

function startCommand({ slot, startLsn, publication, protoVersion, streaming }: ReplicationOptions): string {
  // The list of publications is itself a list of quoted identifiers inside a literal.
  const names = quoteLiteral(quoteIdent(publication)).trim();
  return (
    `START_REPLICATION SLOT ${quoteIdent(slot)} LOGICAL ${formatLsn(startLsn)} ` +
    `(proto_version '${protoVersion}', publication_names ${names}, messages 'true'${streaming === true ? ", streaming 'on'" : ''})`
  );
}

interface StreamState {
  confirmed: bigint;
  closing: boolean;
  timer: NodeJS.Timeout | null;
}

function openStream(channel: WireChannel, state: StreamState, ended: Promise<void>): ReplicationStream {
  return {
    ended,
    confirm(lsn) {
      // The server takes a lower position without complaint, and would then keep WAL for nothing.
      if (lsn > state.confirmed) state.confirmed = lsn;
      sendStatus(channel, state.confirmed);
    },
    pause() {
      channel.socket.pause();
    },
    resume() {
      channel.socket.resume();
    },
    async close() {
      if (!state.closing) {
        state.closing = true;
        channel.socket.resume();
        channel.send('c', Buffer.alloc(0));
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<void>((resolve) => {
          timer = setTimeout(resolve, CLOSE_WAIT_MS);
        });
        await Promise.race([ended.catch(() => undefined), late]);
        clearTimeout(timer);
      }
      if (state.timer !== null) clearInterval(state.timer);
      await channel.end();
    },
  };
}

function copyData(handlers: ReplicationHandlers, bytes: Buffer, start: number, end: number): void {
  const kind = bytes[start] as number;
  if (kind === XLOG_DATA) handlers.data(bytes, start + XLOG_HEADER_BYTES, end);
  else if (kind === KEEPALIVE) {
    handlers.keepalive(bytes.readBigUInt64BE(start + 1), bytes.readBigInt64BE(start + 9), bytes[start + 17] === 1);
  } else throw new ReaderError('PGOUTPUT_INVALID', `an unknown replication message 0x${kind.toString(16)}`);
}

/** Written, flushed and applied are the same for us: what lies in the log durably. */
function sendStatus(channel: WireChannel, lsn: bigint): void {
  const body = Buffer.alloc(34);
  body.writeUInt8(0x72, 0);
  body.writeBigUInt64BE(lsn, 1);
  body.writeBigUInt64BE(lsn, 9);
  body.writeBigUInt64BE(lsn, 17);
  body.writeBigInt64BE(BigInt(Date.now()) * 1000n - POSTGRES_EPOCH_MICROS, 25);
  channel.send('d', body);
}
