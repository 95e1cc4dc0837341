import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import type { Config } from '../runtime/config.ts';
import { askOrigins, nobodyServes, pollService } from './service-client.ts';

const config = { http: { host: '127.0.0.1', port: 1, token: null, tls: { cert: null } } } as unknown as Config;
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Answers as `answers` says, one call after the other, the last for ever; null = the connection is reset. */
async function service(...answers: (string | null)[]): Promise<string> {
  const server = createServer((request, response) => {
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer == null) request.socket.destroy();
    else response.end(answer);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Nothing listens there. */
async function nobody(): Promise<string> {
  const origin = await service('{}');
  await new Promise((resolve) => servers.pop()?.close(resolve));
  return origin;
}

it('takes a half that is there and does not answer for no service that is away', async () => {
  const [away, silent] = [await nobody(), await service(null)];
  const failed = await askOrigins([away, silent], config, { path: '/status' }).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'SERVICE_UNREACHABLE' });
  expect(nobodyServes(failed)).toBe(false);
  const none = await askOrigins([away, away], config, { path: '/status' }).catch((error: unknown) => error);
  expect(nobodyServes(none)).toBe(true);
});

it('asks again how a job goes when a connection breaks', async () => {
  const url = await service(null, null, '{"phase":"running"}');
  expect(await pollService(config, { path: '/control/backfills', body: {}, url })).toEqual({ phase: 'running' });
});
