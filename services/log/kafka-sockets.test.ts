import { once } from 'node:events';
import net from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { createKafkaSockets } from './kafka-sockets.ts';

const servers: net.Server[] = [];
async function silentServer(): Promise<{ readonly port: number }> {
  const server = net.createServer((socket) => socket.on('error', () => undefined));
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  return { port: (server.address() as net.AddressInfo).port };
}
afterEach(() => servers.splice(0).forEach((server) => server.close()));

test('closing ends a socket whose request is never answered, and opens no other', async () => {
  const { port } = await silentServer();
  const sockets = createKafkaSockets();
  let connected = (): void => undefined;
  const up = new Promise<void>((resolve) => (connected = resolve));
  const socket = sockets.factory({ host: '127.0.0.1', port, onConnect: connected });
  const failed = once(socket, 'error');
  await up;
  await sockets.close(() => new Promise(() => undefined));
  expect(await failed).toMatchObject([{ message: expect.stringContaining('closed') }]);
  expect(socket.destroyed).toBe(true);
  expect(() => sockets.factory({ host: '127.0.0.1', port, onConnect: () => undefined })).toThrow(/closed/);
});

test('a connection that comes up while the client is closing does not stay', async () => {
  const { port } = await silentServer();
  const sockets = createKafkaSockets();
  const socket = sockets.factory({ host: '127.0.0.1', port, onConnect: () => undefined });
  socket.on('error', () => undefined);
  await sockets.close(() => Promise.resolve());
  expect(socket.destroyed).toBe(true);
});

test('an orderly end is let finish', async () => {
  const { port } = await silentServer();
  const sockets = createKafkaSockets();
  const socket = sockets.factory({ host: '127.0.0.1', port, onConnect: () => undefined });
  let error: unknown = null;
  socket.on('error', (raised) => (error = raised));
  await once(socket, 'connect');
  await sockets.close(async () => {
    socket.destroy();
    await once(socket, 'close');
  });
  expect(error).toBeNull();
});

test('a socket that is let go again and again while it connects gathers no listeners', async () => {
  const { port } = await silentServer();
  const sockets = createKafkaSockets();
  const socket = sockets.factory({ host: '127.0.0.1', port, onConnect: () => undefined });
  socket.on('error', () => undefined);
  for (let i = 0; i < 20; i++) socket.unref();
  expect(socket.listenerCount('connect')).toBeLessThan(5);
  await sockets.close(() => Promise.resolve());
});
