import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { CONSISTENT_KEY } from '../ingest/consistent.ts';
import { parseConfig } from '../runtime/config.ts';
import { lakeReaches } from './lake-reaches.ts';

/** No service answers on port 1. */
const config = parseConfig({
  text: 'name: shop\nsource: {postgres: "postgres://h/d"}\nlake: {uri: /lake}\nhttp: {port: 1}',
  file: 'sluice.yaml',
  env: {},
  readFile: () => '',
});

it('asks for marks until a cut lies behind the LSN, where only the file tells', async () => {
  const lake = createMemoryStore();
  const cutAt = (lsn: string): Promise<unknown> => lake.put(CONSISTENT_KEY, Buffer.from(JSON.stringify({ lsn })));
  await cutAt('0/FF');
  let asked = 0;
  const askForMark = async (): Promise<void> => {
    asked++;
    await cutAt('0/200');
    throw new Error('its answer does not matter');
  };
  const reached = lakeReaches({ config, lake, askForMark }, new AbortController().signal, 'public.a');
  await reached(0xffn);
  expect(asked).toBe(0);
  await reached(0x200n);
  expect(asked).toBe(1);
});

it('names where the lake stands when it is stopped, and a table that is left out', async () => {
  const lake = createMemoryStore();
  await lake.put(CONSISTENT_KEY, Buffer.from('{"lsn": "0/FF", "left": ["public.b"]}'));
  const ports = { config, lake, askForMark: async () => undefined };
  await expect(lakeReaches(ports, AbortSignal.abort(), 'public.a')(0x100n)).rejects.toMatchObject({
    code: 'LAKE_BEHIND',
    message: 'the lake stands at 0/FF and does not reach 0/100',
  });
  await expect(lakeReaches(ports, AbortSignal.abort(), 'public.b')(0x1n)).rejects.toMatchObject({
    code: 'TABLE_STANDS_STILL',
    exit: 4,
  });
});

it('does not go by the file where the service that answered is busy', async () => {
  const lake = createMemoryStore();
  // Of an older history.
  await lake.put(CONSISTENT_KEY, Buffer.from('{"lsn": "0/FFFF"}'));
  const line = (lsn: string) => ({ table: 'public.a', state: 'STREAMING', why: null, committedLsn: lsn, batchId: '1' });
  let calls = 0;
  const server = createServer((request, response) => {
    calls++;
    if (calls === 2) request.socket.destroy();
    else response.end(JSON.stringify({ pipeline: 'shop', tables: [line(calls === 1 ? '0/10' : '0/200')] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const served = { ...config, http: { ...config.http, port } };
  try {
    const ports = { config: served, lake, askForMark: async () => undefined };
    await lakeReaches(ports, new AbortController().signal, 'public.a')(0x200n);
    expect(calls).toBe(3);
  } finally {
    server.close();
  }
});
