import { expect, it } from 'vitest';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { TableShape } from '../log/event.ts';
import { ReaderError } from '../reader/reader-error.ts';
import { verifyContinuously } from './verify-continuously.ts';
import type { VerifySession } from './verify-session.ts';
import type { TableReport } from './verify-tables.ts';

const shapeOf = (table: string, version: number): TableShape => ({
  schema: 'public',
  table,
  oid: 1,
  version,
  columns: [],
});

it('goes on over what passes, and with the tables as they are now', async () => {
  const over = new AbortController();
  const fails = [
    new StoreError('STORE_UNAVAILABLE', 'k', '503'),
    new ReaderError('SOURCE_LOST', 'the connection was lost'),
  ];
  let shapes = [shapeOf('a', 1)];
  const seen: string[] = [];
  const skipped: string[] = [];
  const session = {
    config: { name: 'shop', http: { token: null, tls: { cert: null } } },
    refresh: async () => Promise.resolve(),
    tables: () => shapes,
    verify: async (shape: TableShape) => {
      const failure = fails.shift();
      if (failure !== undefined) return Promise.reject(failure);
      seen.push(`${shape.table}${shape.version}`);
      shapes = [shapeOf('a', 2), shapeOf('b', 3)];
      if (seen.length === 3) over.abort();
      return Promise.resolve({
        table: 'public.a',
        equal: true,
        differences: [],
        unsettled: 0,
        sourceRows: 0,
        sampled: null,
      });
    },
  } as unknown as VerifySession;
  const equal = await verifyContinuously(session, {
    globs: ['*'],
    bytesPerSecond: 1,
    url: 'http://127.0.0.1:1',
    signal: over.signal,
    onReport: (_report: TableReport) => undefined,
    onSkipped: (_table, error) => skipped.push((error as { code?: string }).code ?? ''),
  });
  expect(equal).toBe(true);
  expect(skipped.slice(0, 2)).toEqual(['STORE_UNAVAILABLE', 'SOURCE_LOST']);
  expect(seen).toEqual(['a1', 'a2', 'b3']);
}, 30_000);
