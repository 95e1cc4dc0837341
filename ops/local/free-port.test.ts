import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { freePort } from './free-port.ts';

test('every call gets a port of its own on which nothing listens', async () => {
  const ports = await Promise.all(Array.from({ length: 200 }, freePort));
  expect(new Set(ports).size).toBe(200);
  const [port = 0] = ports;
  const answer = await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve('connected'));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
  expect(answer).toBe('ECONNREFUSED');
});
