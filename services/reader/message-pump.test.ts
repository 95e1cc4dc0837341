/** When the pump writes to the log. The stream's messages are PostgreSQL's bytes; the log and the row encoding are fakes. */
import { expect, it } from 'vitest';
import { START, appenderOver, marksIn } from '../../test/support/log-appender.ts';
import { MARK_FORMAT, type Mark } from '../log/event.ts';
import type { LogOffset, Lsn } from '../log/position.ts';
import type { ChangeEvents, TransactionInWork } from './change-events.ts';
import { createMessagePump } from './message-pump.ts';
import { createStreamInbox } from './stream-inbox.ts';
import { createUnseenTransactions } from './visibility.ts';

const PATIENT = { timeout: 60_000 };
const TOPIC = 'shop.public.orders';

function message(letter: string, ...numbers: readonly (readonly [bytes: 1 | 2 | 4 | 8, value: bigint])[]): Buffer {
  const parts = numbers.map(([bytes, value]) => {
    const part = Buffer.alloc(8);
    part.writeBigInt64BE(value);
    return part.subarray(8 - bytes);
  });
  return Buffer.concat([Buffer.from(letter), ...parts]);
}
const begin = (lsn: bigint): Buffer => message('B', [8, lsn], [8, 0n], [4, 700n]);
const commit = (lsn: bigint): Buffer => message('C', [1, 0n], [8, lsn], [8, lsn + 8n], [8, 0n]);
const relation = Buffer.concat([message('R', [4, 1n]), Buffer.from('public\0orders\0d'), Buffer.from([0, 0])]);
const insert = Buffer.concat([message('I', [4, 1n]), Buffer.from('N'), Buffer.from([0, 0])]);

function pumpOver() {
  const marks: Mark[] = [];
  const appender = appenderOver(
    async (_records, controls) => {
      const next = new Map([[TOPIC, new Map([[0, 1n as LogOffset]])]]);
      marks.push(...marksIn(controls?.(next) ?? []));
      return next;
    },
    { clock: Date.now },
  );
  let transaction: TransactionInWork | null = null;
  const changes: ChangeEvents = {
    begin: ({ xid, finalLsn }) =>
      (transaction = { xid, lsn: finalLsn as Lsn, committedAtMicros: 0n, changes: 0, written: 0, serial: 0 }),
    get transaction() {
      return transaction;
    },
    end: () => (transaction = null),
    insert() {
      appender.batch.records.push({ topic: TOPIC, key: null, value: Buffer.from('{}'), header: Buffer.alloc(0) });
      if (transaction !== null) transaction.changes++;
    },
    update: () => undefined,
    remove: () => undefined,
    truncate: () => undefined,
    lastOrd: () => ((transaction?.changes ?? 0) - 1) * 2,
  };
  const inbox = createStreamInbox({ pause: () => undefined, resume: () => undefined }, 1000);
  const pump = createMessagePump(
    {
      inbox,
      changes,
      appender,
      unseen: createUnseenTransactions(),
      resolve: () => null,
      watermark: () => null,
      streamed: null,
      clock: Date.now,
      flushIntervalMs: 5,
      idleMarkMs: 60_000,
    },
    START,
  );
  return { pump, marks, send: (bytes: Buffer) => inbox.push(bytes, 0, bytes.length) };
}

it('writes one more mark in another second when the source goes quiet: several workers make a cut at the first mark of a second', async () => {
  const { pump, marks, send } = pumpOver();
  const running = pump.run();
  try {
    await expect.poll(() => marks.length, PATIENT).toBe(1);
    for (const bytes of [begin(100n), relation, insert, commit(100n)]) send(bytes);
    const changed = (): number => marks.findIndex(({ lsn }) => String(lsn) === '0/64');
    await expect.poll(changed, PATIENT).toBe(1);
    await expect.poll(() => marks.length, PATIENT).toBe(3);
    const second = (mark: Mark | undefined): number => Math.floor((mark?.atMs ?? 0) / 1000);
    expect(second(marks[2])).toBeGreaterThan(second(marks[1]));
    await new Promise((resolve) => setTimeout(resolve, 1300));
    expect(marks.length, 'and no other until the next idle mark').toBe(3);
  } finally {
    pump.stop();
    await running;
  }
});

it('ends the mark of an open transaction as soon as its commit has come, although that brings no record', async () => {
  const { pump, marks, send } = pumpOver();
  const running = pump.run();
  try {
    for (const bytes of [begin(100n), relation, insert]) send(bytes);
    await expect.poll(() => marks.map(({ open }) => open), PATIENT).toEqual([false, true]);
    send(commit(100n));
    await expect.poll(() => marks.map(({ open }) => open), PATIENT).toEqual([false, true, false]);
    expect(marks.at(-1)).toMatchObject({ formatVersion: MARK_FORMAT, lsn: '0/64', sequence: 3 });
    expect(pump.received).toBe(108n);
  } finally {
    pump.stop();
    await running;
  }
});
