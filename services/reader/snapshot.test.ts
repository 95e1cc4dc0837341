import { expect, test } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import type { Lsn } from '../log/position.ts';
import { ReaderError } from './reader-error.ts';
import { createSnapshotRunner, type SnapshotPorts } from './snapshot.ts';
import type { TablePlan } from './snapshot-plan.ts';
import type { SourceSession } from './source.ts';
import type { TableRoute } from './table-route.ts';
import { parseSnapshot } from './visibility.ts';

function tableOfOneChunk(): { readonly route: TableRoute; readonly plan: SnapshotPorts['plan'] } {
  const route = { recorder: null, shapeChanges: 0, state: { waitForXid: null, heaps: [] } } as unknown as TableRoute;
  const heap = { schema: 'public', table: 't', oid: 1, relfilenode: 1, blocks: 1, pending: [{ from: 0, to: null }] };
  const shape = { keyColumns: [0], shape: { columns: [{ name: 'id' }] } };
  const plan = { route, heaps: [heap], shape, rowFilter: null, reading: 0 } as unknown as TablePlan;
  return { route, plan: async () => Promise.resolve(plan) };
}

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

test('nothing is forgotten while a chunk waits to be told its snapshot, which may be older than one that came first', async () => {
  const asked: ((rows: readonly object[]) => void)[] = [];
  const marks: string[] = [];
  const session = {
    query: async (sql: string) => {
      const mark = /'(low:[^']*)'/.exec(sql)?.[1];
      if (mark !== undefined) marks.push(mark);
      if (!sql.startsWith('BEGIN')) return Promise.resolve([]);
      return new Promise<readonly object[]>((resolve) => void asked.push(resolve));
    },
    close: async () => Promise.resolve(),
  } as unknown as SourceSession;
  const { route, plan } = tableOfOneChunk();
  const runner = createSnapshotRunner({
    source: { session: async () => Promise.resolve(session) },
    appender: { noteTable: () => undefined },
    unseen: { xids: new Set([600]) },
    plan,
    runId: 'r',
    parallel: 1,
    chunkRows: 10,
    recordedEventsMax: 10,
  } as unknown as SnapshotPorts);
  runner.begin(route);
  await waitFor('the low mark', () => marks.length > 0);
  runner.watermark(marks[0] ?? '', { lsn: 1n as Lsn, committedAtMicros: 0n });
  await waitFor('the question for the snapshot', () => asked.length > 0);
  route.recorder?.write(700, 'k', []);
  const [older, newer] = [parseSnapshot('650:650:'), parseSnapshot('710:710:')];
  runner.seen(newer);
  expect(route.recorder?.fate('k', older)).toBe('skip');
  const stopped = runner.stop();
  for (const answer of asked) answer([{ s: '650:650:' }]);
  await stopped;
});

test('a fetch that ends leaves the keys of its table to another that still runs', async () => {
  const session = {
    query: async () => Promise.resolve([]),
    close: async () => Promise.resolve(),
  } as unknown as SourceSession;
  let plans = 0;
  const goOn: (() => void)[] = [];
  const runner = createSnapshotRunner({
    source: { session: async () => Promise.resolve(session) },
    unseen: { xids: new Set() },
    plan: async () => {
      plans++;
      if (plans > 1) await new Promise<void>((resolve) => void goOn.push(resolve));
      throw new ReaderError('TABLE_NOT_FOUND', 'no such table');
    },
    parallel: 2,
    recordedEventsMax: 10,
  } as unknown as SnapshotPorts);
  const route = { recorder: null } as unknown as TableRoute;
  const [first, second] = [runner.fetch(route, { condition: 'a' }), runner.fetch(route, { condition: 'b' })];
  await expect(first).rejects.toThrow('no such table');
  await waitFor('the other to be under way', () => goOn.length > 0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(route.recorder).not.toBeNull();
  for (const next of goOn) next();
  await expect(second).rejects.toThrow('no such table');
  await waitFor('nobody to need the keys', () => route.recorder === null);
});

test('rows whose table was given up while the append before them was under way are not written: the keys that changed are no longer known', async () => {
  const marks: string[] = [];
  const session = {
    query: async (sql: string) => {
      const mark = /'((?:low|high):[^']*)'/.exec(sql)?.[1];
      if (mark !== undefined) marks.push(mark);
      if (sql.startsWith('BEGIN')) return Promise.resolve([{ s: '650:650:' }]);
      return Promise.resolve(sql.startsWith('DECLARE') ? [{ n: '1', heap: '0', toast: '0' }] : []);
    },
    rows: async () => Promise.resolve(0),
    close: async () => Promise.resolve(),
  } as unknown as SourceSession;
  const { route, plan } = tableOfOneChunk();
  const runner = createSnapshotRunner({
    source: { session: async () => Promise.resolve(session) },
    appender: { noteTable: () => undefined },
    unseen: { xids: new Set() },
    failpoint: () => undefined,
    plan,
    present: () => {
      throw new Error('rows were written');
    },
    runId: 'r',
    parallel: 1,
    chunkRows: 10,
    recordedEventsMax: 10,
  } as unknown as SnapshotPorts);
  const at = { lsn: 1n as Lsn, committedAtMicros: 0n };
  runner.begin(route);
  await waitFor('the low mark', () => marks.length === 1);
  runner.watermark(marks[0] ?? '', at);
  await waitFor('the high mark', () => marks.length === 2);
  const work = runner.watermark(marks[1] ?? '', at);
  expect(work).not.toBeNull();
  // As when another chunk of the table fails for good.
  runner.cancel(route);
  expect(route.recorder).toBeNull();
  expect(work?.write()).toBe(0);
  await runner.stop();
});
