/**
 * A growing place for the bytes of records: chunks that are filled one after the other and never written again.
 * Slices of a chunk stay valid for as long as they are held; one held slice keeps its whole chunk in memory.
 */
export interface ByteSink {
  bytes: Buffer;
  /** Where the next byte goes. */
  at: number;
  /** Where the record in work begins; it moves as a whole when a chunk is full. */
  start: number;
  readonly chunkBytes: number;
}

export function createByteSink(chunkBytes: number): ByteSink {
  return { bytes: Buffer.allocUnsafeSlow(chunkBytes), at: 0, start: 0, chunkBytes };
}

/** Makes room for `need` more bytes of the record in work. Positions in the sink may change; read them after the call. */
export function reserve(sink: ByteSink, need: number): void {
  if (sink.at + need > sink.bytes.length) grow(sink, need);
}

function grow(sink: ByteSink, need: number): void {
  const written = sink.at - sink.start;
  // A record longer than a chunk doubles, so that its bytes are copied a bounded number of times.
  const next = Buffer.allocUnsafeSlow(Math.max(sink.chunkBytes, written * 2 + need));
  sink.bytes.copy(next, 0, sink.start, sink.at);
  sink.bytes = next;
  sink.start = 0;
  sink.at = written;
}

/** Bytes known in advance: names, punctuation, the constant parts of the envelope. */
export function writeBytes(sink: ByteSink, from: Uint8Array): void {
  const length = from.length;
  reserve(sink, length);
  const { bytes } = sink;
  let { at } = sink;
  if (length > 40) bytes.set(from, at);
  else for (let i = 0, to = at; i < length; i++) bytes[to++] = from[i] as number;
  at += length;
  sink.at = at;
}

/** A whole number from 0 to 2^53 in decimal digits. */
export function writeNatural(sink: ByteSink, value: number): void {
  reserve(sink, 16);
  const { bytes } = sink;
  let high = Math.floor(value / 10_000_000);
  let low = value - high * 10_000_000;
  let width = 1;
  for (let limit = 10; limit <= value; limit *= 10) width++;
  let at = sink.at + width;
  sink.at = at;
  // Two halves below 2^31, so that the divisions stay in integer registers.
  while (high > 0) {
    for (let i = 0; i < 7; i++) {
      const rest = (low / 10) | 0;
      bytes[--at] = 0x30 + (low - rest * 10);
      low = rest;
    }
    const next = Math.floor(high / 10_000_000);
    low = high - next * 10_000_000;
    high = next;
  }
  while (at > sink.at - width) {
    const rest = (low / 10) | 0;
    bytes[--at] = 0x30 + (low - rest * 10);
    low = rest;
  }
}
