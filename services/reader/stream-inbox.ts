/**
 * Messages between the socket and the pump. Bounded in bytes: above the limit the socket is paused and the server waits, so
 * a slow log holds back WAL at the source and fills no memory here.
 */
export interface StreamInbox {
  push(bytes: Buffer, start: number, end: number): void;
  /** Takes the next message; false when there is none. It then stands in `bytes`, `start`, `end`. */
  next(): boolean;
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
  readonly isEmpty: boolean;
  readonly waitingBytes: number;
  /** Resolves at the next push, `wake` or after `timeoutMs`. */
  wait(timeoutMs: number): Promise<void>;
  wake(): void;
}

export interface FlowControl {
  pause(): void;
  resume(): void;
}

/** In the place of what was taken. */
const TAKEN = Buffer.alloc(0);

export function createStreamInbox(flow: FlowControl, bytesMax: number): StreamInbox {
  // Parallel lists instead of an object a message.
  let buffers: Buffer[] = [];
  let ranges: number[] = [];
  let head = 0;
  let waiting = 0;
  let paused = false;
  let current: Buffer = TAKEN;
  let start = 0;
  let end = 0;
  let waker: (() => void) | null = null;

  const wake = (): void => {
    const resolve = waker;
    waker = null;
    resolve?.();
  };
  return {
    push(bytes, from, to) {
      buffers.push(bytes);
      ranges.push(from, to);
      waiting += to - from;
      if (!paused && waiting > bytesMax) {
        paused = true;
        flow.pause();
      }
      if (waker !== null) wake();
    },
    next() {
      if (head >= buffers.length) return false;
      current = buffers[head] as Buffer;
      // Let go of at once: an inbox that is never empty would keep all that went through it.
      buffers[head] = TAKEN;
      start = ranges[head * 2] as number;
      end = ranges[head * 2 + 1] as number;
      head++;
      waiting -= end - start;
      if (head === buffers.length) {
        buffers = [];
        ranges = [];
        head = 0;
      } else if (head >= 65_536) {
        // Or the lists would grow for as long as it is never empty.
        buffers = buffers.slice(head);
        ranges = ranges.slice(head * 2);
        head = 0;
      }
      if (paused && waiting < bytesMax / 2) {
        paused = false;
        flow.resume();
      }
      return true;
    },
    get bytes() {
      return current;
    },
    get start() {
      return start;
    },
    get end() {
      return end;
    },
    get isEmpty() {
      return head >= buffers.length;
    },
    get waitingBytes() {
      return waiting;
    },
    async wait(timeoutMs) {
      if (head < buffers.length) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(wake, timeoutMs);
        waker = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
    wake,
  };
}
