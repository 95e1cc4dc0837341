import { describe, expect, it } from 'vitest';
import { lsn } from '../log/position.ts';
import { createAcker, keepaliveCounts } from './acker.ts';
import { leafRefilled, rewriteOf, sourceBreak, tableBreak, type TableNow } from './continuity.ts';
import type { ReaderPosition, TableSeen, TableState } from './reader-state.ts';
import { slotInsurance, type SlotSample } from './slot-insurance.ts';
import type { SlotState } from './slot.ts';
import { createUnseenTransactions, isVisible, parseSnapshot, widenXid } from './visibility.ts';

describe('acker', () => {
  it('confirms what is durable, once, and never less than before', () => {
    const acker = createAcker({ confirmed: 10n, heldByLake: false });
    expect(acker.take()).toBeNull();
    acker.durable(30n);
    acker.durable(20n);
    expect(acker.take()).toBe(30n);
    expect(acker.take()).toBeNull();
  });
  it('is held by what the lake has committed, with an embedded log', () => {
    const acker = createAcker({ confirmed: 10n, heldByLake: true });
    acker.durable(30n);
    expect(acker.take()).toBeNull();
    acker.committed(20n);
    expect(acker.take()).toBe(20n);
    acker.committed(99n);
    expect(acker.take()).toBe(30n);
  });
  it('takes a keepalive only between transactions, with nothing buffered', () => {
    const idle = { transactionOpen: false, bufferedRecords: 0, bufferedBytes: 0 };
    expect(keepaliveCounts(idle)).toBe(true);
    expect(keepaliveCounts({ ...idle, transactionOpen: true })).toBe(false);
    expect(keepaliveCounts({ ...idle, bufferedRecords: 1 })).toBe(false);
    expect(keepaliveCounts({ ...idle, bufferedBytes: 1 })).toBe(false);
  });
});

describe('visibility', () => {
  it('widens 32-bit ids around the snapshot, over the wrap', () => {
    expect(widenXid(5, (7n << 32n) + 10n)).toBe((7n << 32n) + 5n);
    expect(widenXid(0xffff_fff0, (7n << 32n) + 10n)).toBe((6n << 32n) + 0xffff_fff0n);
    expect(widenXid(20, (7n << 32n) + 0xffff_fff0n)).toBe((8n << 32n) + 20n);
  });
  it('sees what has ended and is not in the list', () => {
    const snapshot = parseSnapshot('100:110:103,107');
    expect([99, 100, 103, 105, 107, 109, 110, 200].map((xid) => isVisible(xid, snapshot))).toEqual([
      true,
      true,
      false,
      true,
      false,
      true,
      false,
      false,
    ]);
    const unseen = createUnseenTransactions([99, 103]);
    unseen.add(120);
    expect([...unseen.xids].filter((xid) => !isVisible(xid, snapshot))).toEqual([103, 120]);
    unseen.prune(snapshot);
    expect([...unseen.xids]).toEqual([103, 120]);
  });
});

const saved: ReaderPosition = {
  systemIdentifier: '7',
  timeline: 1,
  database: 'd',
  slot: 's',
  logId: 'log',
  publication: '10/700',
  epoch: 1,
  lsn: lsn(90n),
  ord: 0,
  open: false,
  confirmLsn: lsn(100n),
  sequence: 3,
  bytes: 0n,
  sourceTimeMicros: 0n,
  unseenXids: [],
};
const slot: SlotState = {
  name: 's',
  plugin: 'pgoutput',
  database: 'd',
  active: true,
  activePid: 1,
  restartLsn: lsn(80n),
  confirmedFlushLsn: lsn(100n),
  walStatus: 'reserved',
  safeWalBytes: null,
  invalidationReason: null,
  failover: false,
  synced: false,
  temporary: false,
  catalogXmin: 1,
};
const source = { systemIdentifier: '7', timeline: 1, ancestors: [], logId: 'log', slot, walLsn: 200n };
const left = (at: bigint) => [{ timeline: 1, leftAt: lsn(at) }];

describe('continuity', () => {
  it.each([
    ['goes on', {}, null],
    ['a promoted standby that has our position', { timeline: 2, ancestors: left(100n) }, null],
    ['one of two promotions', { timeline: 3, ancestors: [...left(100n), { timeline: 2, leftAt: lsn(150n) }] }, null],
    [
      'a timeline that left ours below us and went on',
      { timeline: 2, ancestors: left(99n), walLsn: 500n },
      'SYSTEM_CHANGED',
    ],
    ['a timeline of other descent', { timeline: 2 }, 'SYSTEM_CHANGED'],
    ['the publication as it was', { publication: '10/700' }, null],
    ['a publication that was altered', { publication: '10/900' }, 'PUBLICATION_CHANGED'],
    ['a publication that was dropped and made again', { publication: '11/900' }, 'PUBLICATION_CHANGED'],
    ['another system, with a publication of its own', { systemIdentifier: '8', publication: '11/9' }, 'SYSTEM_CHANGED'],
    ['another log', { logId: 'new' }, 'TOPIC_RESET'],
    ['another system', { systemIdentifier: '8' }, 'SYSTEM_CHANGED'],
    ['an older copy', { walLsn: 50n }, 'SYSTEM_CHANGED'],
    ['a timeline that branched below us', { timeline: 2, walLsn: 99n }, 'SYSTEM_CHANGED'],
    ['no slot', { slot: null }, 'SLOT_LOST'],
    ['WAL gone', { slot: { ...slot, walStatus: 'lost' } }, 'SLOT_INVALIDATED'],
    ['idle timeout', { slot: { ...slot, invalidationReason: 'idle_timeout' } }, 'SLOT_INVALIDATED'],
    ['moved', { slot: { ...slot, confirmedFlushLsn: lsn(101n) } }, 'SLOT_MOVED'],
  ])('%s', (_what, change, state) => {
    expect(sourceBreak(saved, { ...source, ...change })?.state ?? null).toBe(state);
  });

  const state: TableState = {
    schema: 'a',
    table: 't',
    oid: 5,
    phase: 'streaming',
    stopped: null,
    snapshot: 1,
    waitForXid: null,
    heaps: [],
    rows: 0,
    startedAtMs: 0,
    partitions: [],
    seen: null,
  };
  const now: TableNow = {
    oid: 5,
    key: ['id'],
    heaps: [{ schema: 'a', table: 't', relfilenode: 1 }],
    partitioned: false,
    published: true,
    rowFilter: null,
    columnList: null,
    entries: ['r7'],
  };
  it.each([
    ['the same', now, null],
    ['gone', null, 'TABLE_MISSING'],
    ['swapped', { ...now, oid: 6 }, 'TABLE_REPLACED'],
    ['not published', { ...now, published: false }, 'PUBLICATION_CHANGED'],
    ['another key', { ...now, key: ['x'] }, 'KEY_CHANGED'],
    ['another filter', { ...now, rowFilter: '(a > 1)' }, 'PUBLICATION_CHANGED'],
  ])('table: %s', (_what, found, expected) => {
    expect(tableBreak({ state, key: ['id'], now }, found)?.state ?? null).toBe(expected);
  });
  it('sees by its entry in the publication that a table left it and came back', () => {
    const read = { ...state, published: { rowFilter: null, columnList: null, entries: ['r7'] } };
    const anew = { ...now, entries: ['r8'] };
    expect(tableBreak({ state: read, key: ['id'], now: null }, now)).toBeNull();
    expect(tableBreak({ state: read, key: ['id'], now }, { ...now, entries: ['r7', 'n9'] })).toBeNull();
    expect(tableBreak({ state: read, key: ['id'], now: anew }, anew)?.state).toBe('PUBLICATION_CHANGED');
    expect(tableBreak({ state, key: ['id'], now }, anew)?.state).toBe('PUBLICATION_CHANGED');
    // Noted by a reader that did not look at entries yet.
    const before = { ...state, published: { rowFilter: null, columnList: null } };
    expect(tableBreak({ state: before, key: ['id'], now: null }, anew)).toBeNull();
  });
  it('compares filter and column list with those that the table was read with, however it was first looked at', () => {
    const read = { ...state, published: { rowFilter: null, columnList: ['id'] } };
    const same = { ...now, columnList: ['id'] };
    expect(tableBreak({ state: read, key: ['id'], now: null }, same)).toBeNull();
    for (const changed of [
      { ...same, rowFilter: '(a > 1)' },
      { ...same, columnList: null },
    ]) {
      expect(tableBreak({ state: read, key: ['id'], now: null }, changed)?.state).toBe('PUBLICATION_CHANGED');
      expect(tableBreak({ state: read, key: ['id'], now: changed }, changed)?.state).toBe('PUBLICATION_CHANGED');
      expect(tableBreak({ state, key: ['id'], now: null }, changed)).toBeNull();
    }
  });

  const column = { attnum: 1, name: 'a', typeOid: 23, typeModifier: -1, hasDefault: false };
  const seen: TableSeen = { attributes: [column], files: { 'a.t': 1 } };
  it.each([
    ['nothing', seen, null],
    ['VACUUM FULL', { ...seen, files: { 'a.t': 2 } }, null],
    ['ADD COLUMN without default', { ...seen, attributes: [column, { ...column, attnum: 2, name: 'b' }] }, null],
    [
      'ADD COLUMN with default',
      { ...seen, attributes: [column, { ...column, attnum: 2, name: 'b', hasDefault: true }] },
      /added with a value/,
    ],
    ['RENAME', { ...seen, attributes: [{ ...column, name: 'b' }] }, /a was renamed to b/],
    ['DROP and ADD', { ...seen, attributes: [{ ...column, attnum: 2 }] }, /dropped and added/],
    ['ALTER TYPE by rewrite', { attributes: [{ ...column, typeOid: 25 }], files: { 'a.t': 2 } }, /rewriting/],
    ['ALTER TYPE without rewrite', { ...seen, attributes: [{ ...column, typeModifier: 20 }] }, null],
  ])('rewrite: %s', (_what, after, expected) => {
    const found = rewriteOf(seen, after);
    if (expected === null) expect(found).toBeNull();
    else expect(found).toMatch(expected);
  });
});

describe('a leaf that has another file', () => {
  const seen = (files: Record<string, number>): TableSeen => ({ attributes: [], files });
  const before = seen({ 'a.p1': 1, 'a.p2': 2 });
  it.each([
    ['nothing', before, false, null],
    ['one leaf', seen({ 'a.p1': 1, 'a.p2': 9 }), false, 'a.p2'],
    ['one leaf beside a TRUNCATE of all that was met before', seen({ 'a.p1': 1, 'a.p2': 9 }), true, 'a.p2'],
    ['all leaves, and no TRUNCATE came', seen({ 'a.p1': 8, 'a.p2': 9 }), false, 'a.p1'],
    ['all leaves by a TRUNCATE that was sent', seen({ 'a.p1': 8, 'a.p2': 9 }), true, null],
    ['another leaf', seen({ 'a.p1': 1, 'a.p2': 2, 'a.p3': 3 }), false, null],
  ])('%s', (_what, now, truncated, leaf) => {
    expect(leafRefilled(before, now, truncated)).toBe(leaf);
  });
});

describe('slot insurance', () => {
  const sample: SlotSample = {
    atMs: 0,
    walLsn: 1000n,
    restartLsn: 900n,
    safeWalBytes: 10_000n,
    walStatus: 'reserved',
    oldestTransaction: null,
  };
  it('tells held bytes, growth and the time that is left', () => {
    const later = slotInsurance(sample, { ...sample, atMs: 10_000, walLsn: 2000n });
    expect(later).toMatchObject({
      heldBytes: 1100n,
      walBytesPerSecond: 100,
      growthBytesPerSecond: 100,
      secondsToLimit: 100,
      level: 'critical',
    });
    expect(slotInsurance(null, sample)).toMatchObject({ heldBytes: 100n, secondsToLimit: null, level: 'ok' });
    expect(slotInsurance(sample, { ...sample, atMs: 10_000, restartLsn: 1000n }).growthBytesPerSecond).toBeLessThan(0);
    expect(slotInsurance(sample, { ...sample, walStatus: 'unreserved' }).level).toBe('critical');
  });
});
