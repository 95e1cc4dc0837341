import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { LocalServerError } from './local-server-error.ts';

/** Below the ports that systems give to whoever asks for any: neither a connection nor a server on port 0 gets one of these. */
const LOWEST = 20_000;
const COUNT = 12_000;
const TRIES = 1_000;

/**
 * A TCP port of 127.0.0.1 on which nothing listened a moment ago. While this process lives no other call gets it, in whatever
 * process: the UDP port of the same number is kept for that. A program that asks nobody may still take it: callers retry.
 * @throws LocalServerError
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if ((await claim(port)) && (await isFree(port))) return port;
  }
  throw new LocalServerError('SERVER_START_FAILED', `no port of 127.0.0.1 from ${LOWEST} on is free`);
}

function claim(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const claimed = createSocket('udp4').unref();
    claimed.once('error', () => {
      claimed.close();
      resolve(false);
    });
    claimed.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true));
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
