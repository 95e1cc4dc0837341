import { expect, test } from 'vitest';
import { ReaderError } from './reader-error.ts';
import { createSnapshotRunner, type SnapshotPorts } from './snapshot.ts';
import type { SourceSession } from './source.ts';
import type { TableRoute } from './table-route.ts';

test('work that comes while a worker ends its session is taken up by another one', async () => {
  let sessions = 0;
  let closing: () => void = () => undefined;
  const isClosing = new Promise<void>((resolve) => (closing = resolve));
  const session = {
    query: async () => Promise.resolve([]),
    // The server may be busy and not hear of it for long.
    close: async () => {
      closing();
      return new Promise<void>(() => undefined);
    },
  } as unknown as SourceSession;
  const ports = {
    source: {
      session: async () => {
        sessions++;
        return Promise.resolve(session);
      },
    },
    unseen: { xids: new Map() },
    plan: async () => Promise.reject(new ReaderError('TABLE_NOT_FOUND', 'no such table')),
    parallel: 1,
    recordedEventsMax: 10,
  } as unknown as SnapshotPorts;
  const runner = createSnapshotRunner(ports);
  const route = { recorder: null } as unknown as TableRoute;
  await expect(runner.fetch(route, { condition: 'true' })).rejects.toThrow('no such table');
  await isClosing;
  await expect(runner.fetch(route, { condition: 'true' })).rejects.toThrow('no such table');
  expect(sessions).toBe(2);
});
