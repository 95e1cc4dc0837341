import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ContinuityError } from '../reader/attach.ts';
import { ReaderError } from '../reader/reader-error.ts';
import type { ReaderHandle, ReaderStatus } from '../reader/reader-options.ts';
import { createLogger } from '../runtime/logger.ts';
import { startStandingReader } from './standing-reader.ts';

const logger = createLogger({ level: 'silent', pipeline: 'p' });
const lost = () => new ContinuityError({ state: 'SLOT_LOST', detail: 'slot s is gone', gap: null });

function fakeReader(): ReaderHandle & { readonly breakBy: (error: Error) => void } {
  let breakBy: (error: Error) => void = () => undefined;
  let end: () => void = () => undefined;
  const done = new Promise<void>((resolve, reject) => {
    breakBy = reject;
    end = resolve;
  });
  done.catch(() => undefined);
  return {
    done,
    breakBy,
    status: () => ({ phase: 'streaming', stopped: null, marks: 7 }) as unknown as ReaderStatus,
    stop: () => Promise.resolve(end()),
    resnapshot: () => Promise.resolve(),
    holdSnapshot: () => undefined,
    addTable: () => Promise.resolve(),
    removeTable: () => Promise.resolve(null),
    fetchRows: () => Promise.resolve(3),
    fetchKeys: () => Promise.resolve(0),
  };
}

test('a break that is found at the start stops the reader and not the process, and ends without a restart', async () => {
  let mended = false;
  const reader = await startStandingReader(
    () => (mended ? Promise.resolve(fakeReader()) : Promise.reject(lost())),
    logger,
    5,
  );
  expect(reader.status()).toMatchObject({ phase: 'stopped', stopped: { state: 'SLOT_LOST' } });
  expect(() => reader.fetchRows('a', 'b', 'true')).toThrow(/SLOT_LOST/);
  mended = true;
  while (reader.status().phase !== 'streaming') await sleep(2);
  expect(reader.status().stopped).toBeNull();
  expect(await reader.fetchRows('a', 'b', 'true')).toBe(3);
  await reader.stop();
});

test('one that comes later does, too, and shows the last figures', async () => {
  const first = fakeReader();
  const started: ReaderHandle[] = [first];
  const reader = await startStandingReader(() => Promise.resolve(started.shift() ?? fakeReader()), logger, 20);
  first.breakBy(lost());
  await sleep(1);
  expect(reader.status()).toMatchObject({ phase: 'stopped', stopped: { state: 'SLOT_LOST' }, marks: 7 });
  while (reader.status().phase !== 'streaming') await sleep(2);
  await reader.stop();
});

test('what no look can cure at a first start is the caller’s, and so is what is no state', async () => {
  const denied = new ReaderError('TABLE_NO_KEY', 'table a.b has no key');
  await expect(startStandingReader(() => Promise.reject(denied), logger, 5)).rejects.toBe(denied);
  const away = new ReaderError('SOURCE_UNREACHABLE', 'no answer');
  await expect(startStandingReader(() => Promise.reject(away), logger, 5)).rejects.toBe(away);
});

test('what is done while it stands still is done again where it failed, and not taken for done', async () => {
  const reader = await startStandingReader(() => Promise.resolve(fakeReader()), logger, 60_000);
  const why = { state: 'SLOT_LOST', detail: 'given up', remedy: 'repair' };
  let tries = 0;
  const drop = async (): Promise<void> => {
    tries++;
    return tries === 1 ? Promise.reject(new Error('still in use')) : Promise.resolve();
  };
  await expect(reader.standStill?.(why, drop)).rejects.toThrow('still in use');
  await reader.standStill?.(why, drop);
  expect(tries).toBe(2);
  await reader.stop();
});
