/** What one command, or the replication stream, needs of an authenticated connection. */
import type { Duplex } from 'node:stream';
import type { ReaderError } from './reader-error.ts';
import type { FrameHandler } from './wire-frames.ts';

/** The command in work: gets every frame until ReadyForQuery. */
export interface WireCommand {
  readonly what: string;
  readonly frame: FrameHandler;
  readonly settle: (error: ReaderError | null) => void;
}

/** What the replication stream needs of the session. */
export interface WireChannel {
  readonly socket: Duplex;
  readonly purpose: string;
  send(tag: string, body: Buffer): void;
  run(command: WireCommand): void;
  /** Called behind every socket chunk. */
  onChunkEnd: (() => void) | null;
  end(): Promise<void>;
}

export const Frame = {
  rowDescription: 0x54,
  dataRow: 0x44,
  error: 0x45,
  ready: 0x5a,
  copyBoth: 0x57,
  copyData: 0x64,
  copyDone: 0x63,
} as const;

/** PostgreSQL's strings end with a zero byte. */
export function cString(text: string): Buffer {
  return Buffer.from(`${text}\0`, 'utf8');
}
