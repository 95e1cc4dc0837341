/**
 * Builds, switches and the way back on a real log, merge writer and contract engine, in this process: what a kill at any point
 * leaves is seen by an error at that point and a pipeline that starts again.
 */
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { contractFolder } from '../../services/ingest/contract-files.ts';
import type { IngestHandle, OwnedTable } from '../../services/ingest/pipeline.ts';
import { buildTable, discardBuild, type BuildRequest } from '../../services/replay/replay/build-table.ts';
import { diffBuild } from '../../services/replay/replay/diff-build.ts';
import { replayInPlace } from '../../services/replay/replay/in-place.ts';
import type { ReplayParts } from '../../services/replay/replay/parts.ts';
import { parseRangePoint } from '../../services/replay/replay/range-point.ts';
import { settleSwap } from '../../services/replay/replay/swap-steps.ts';
import { undoSwap } from '../../services/replay/replay/swap-undo.ts';
import { swapTable } from '../../services/replay/replay/table-swap.ts';
import { createParts, type Parts } from '../ingest/bench-of-parts.ts';
import type { FakeChange } from '../ingest/fake-reader.ts';
import { columnOf, shapeOf, UNCHANGED, type CellText } from '../support/row-events.ts';

const t = shapeOf(
  [columnOf('id', 'integer', 1, { notNull: true }), columnOf('n', 'integer'), columnOf('body', 'text')],
  { table: 't', version: 1 },
);
const put = (id: number, n: number | null, body: CellText, op: FakeChange['op'] = 'c'): FakeChange => ({
  shape: t,
  op,
  after: [String(id), n === null ? null : String(n), body],
});
const remove = (id: number): FakeChange => ({ shape: t, op: 'd', before: [String(id), null, null] });
const T = { schema: 'public', table: 't' };
const INTO = { schema: 'public', table: 't_new' };
const quiet = { signal: new AbortController().signal, onProgress: () => undefined };
const NOW = { kind: 'now' } as const;

let parts: Parts;
let replay: ReplayParts;
let failAt: string | null = null;
let ingest: IngestHandle;

beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(t);
  failAt = null;
  replay = {
    name: 'shop',
    log: parts.log,
    logId: await parts.log.admin.logId(),
    lake: parts.lake,
    checkpoint: { store: parts.lake, folder: '_sluice/checkpoints' },
    stateFolder: join(parts.folder, 'state', 'replay'),
    contracts: contractFolder(join(parts.folder, 'contracts')),
    piiKey: null,
    memoryBytes: 128 * 1024 * 1024,
    maxOffsetsPerTrigger: 5,
    changeDataFeed: false,
    deletionVectors: true,
    retentionMs: 7 * 24 * 3600 * 1000,
    now: Date.now,
    newId: randomUUID,
    failpoint: (name) => {
      if (name === failAt) throw new Error(`killed at ${name}`);
    },
  };
  ingest = await start();
});
afterEach(() => parts.close());

const start = (): Promise<IngestHandle> => parts.start({ beforeTable: () => settleSwap(replay, T) });
/** As after a kill: nothing is finished, another process takes over. */
async function restart(): Promise<void> {
  await ingest.stop(1000);
  failAt = null;
  ingest = await start();
  await ingest.drain();
}
const owner = (): OwnedTable => {
  const owned = ingest.owned('public.t');
  if (owned === null) throw new Error('no owner');
  return owned;
};
const build = (more: Partial<BuildRequest> = {}) =>
  buildTable(replay, { table: T, into: INTO, from: null, to: NOW, contract: null, ...more }, quiet);
const swap = () => swapTable(replay, owner(), { table: T, into: INTO }, quiet);
const undo = () => undoSwap(replay, owner(), T, quiet);
const inPlace = (from = 'beginning', to = 'now') => replayInPlace(replay, owner(), { table: T, from, to }, quiet);

const cells = async (path = 'public/t'): Promise<Record<string, unknown[]>> =>
  Object.fromEntries([...(await parts.rows(path))].map(([key, row]) => [key, [row['n'], row['body']]]));
const parkedIds = async (): Promise<string[]> => {
  const found = await ingest.quarantine('public.t')?.list({ statuses: new Set(['parked']), ruleId: null, limit: 100 });
  return (found ?? []).map(({ id }) => id).toSorted();
};

async function changed(change: (properties: YAMLSeq<YAMLMap>) => void): Promise<string> {
  const document = parseDocument(await readFile(join(parts.folder, 'contracts', 'public.t.odcs.yaml'), 'utf8'));
  change(document.getIn(['schema', 0, 'properties']) as YAMLSeq<YAMLMap>);
  return document.toString();
}
const bounded = (maximum: number): Promise<string> =>
  changed((properties) => properties.items[1]?.setIn(['logicalTypeOptions', 'maximum'], maximum));
const setHead = (text: string): Promise<void> => writeFile(join(parts.folder, 'contracts', 'public.t.odcs.yaml'), text);
const withoutBody = (): Promise<string> =>
  changed((properties) =>
    properties.items[2]?.set('customProperties', parseDocument('[{property: piiAction, value: drop}]').contents),
  );

/** Inserts, updates of unchanged columns, a key change, deletes, a truncate in between. */
async function history(): Promise<void> {
  const { reader } = parts;
  await reader.commit([put(1, 1, 'gone'), put(2, 2, 'gone too')]);
  await reader.commit([{ shape: t, op: 't' }]);
  await reader.commit([put(1, 1, 'one'), put(2, 2, 'two'), put(3, 3, 'three')]);
  await reader.commit([put(1, 10, UNCHANGED, 'u')]);
  await reader.commit([
    { ...remove(2), ord: 0, otherKey: ['5', null, null] },
    { ...put(5, 50, UNCHANGED), ord: 1, otherKey: ['2', null, null] },
  ]);
  await reader.commit([remove(3)]);
  await reader.commit([put(4, 4, 'four')]);
  await ingest.drain();
}
const AFTER = { 1: [10, 'one'], 4: [4, 'four'], 5: [50, 'two'] };

describe('a second table', () => {
  test('from the log is the first, and nothing would change', async () => {
    await history();
    expect(await cells()).toEqual(AFTER);
    expect(await build()).toMatchObject({ resumed: false, range: { base: 'beginning' } });
    expect(await cells('public/t_new')).toEqual(AFTER);
    const found = await diffBuild(replay, { table: T, into: INTO }, { signal: quiet.signal, samplesMax: 5 });
    expect(found).toMatchObject({ atOneLsn: true, added: 0, removed: 0, changed: 0, columns: [], samples: [] });
    await parts.reader.commit([put(6, 6, 'six')]);
    await ingest.drain();
    expect(await build()).toMatchObject({ resumed: true });
    expect(await cells('public/t_new')).toEqual({ ...AFTER, 6: [6, 'six'] });
    await discardBuild(replay, INTO);
    await expect(cells('public/t_new')).rejects.toThrow();
  });

  test.each([
    'after-offset-log-write',
    'after-data-files',
    'before-table-commit',
    'after-table-commit',
    'after-replay-build',
  ])('killed at %s goes on', async (point) => {
    await history();
    failAt = point;
    await expect(build()).rejects.toThrow('killed');
    failAt = null;
    expect(await build()).toMatchObject({ resumed: true });
    expect(await cells('public/t_new')).toEqual(AFTER);
  });

  test('by another contract differs in what that says, row by row', async () => {
    await history();
    const text = await bounded(20);
    await build({ contract: { file: 'other.yaml', text } });
    const found = await diffBuild(replay, { table: T, into: INTO }, { signal: quiet.signal, samplesMax: 5 });
    // The key change parks whole, so that the new key's row is missing and the old one's is gone.
    expect(found).toMatchObject({ atOneLsn: true, added: 0, removed: 1, parkedAfter: 1 });
    expect(found.samples).toContainEqual({ kind: 'removed', key: ['5'], cells: [] });
    await expect(build({ contract: { file: 'x', text: await bounded(3) } })).rejects.toThrow('cannot be built');
    await expect(
      build({ contract: { file: 'x', text: 'no: contract' }, into: { ...INTO, table: 'x' } }),
    ).rejects.toThrow('the contract of public.t cannot be used');
  });

  test('from the middle never has NULL for what lies before, and is not switched in', async () => {
    await history();
    await build({ from: { point: parseRangePoint('--from', 'offset:6'), text: 'offset:6' } });
    // Offsets 0-1 inserts, 2 truncate, 3-5 inserts, 6 the update of 1 without its body, 7-8 the key change, 9, 10.
    expect(await cells('public/t_new')).toEqual({ 4: [4, 'four'] });
    await expect(swap()).rejects.toThrow('only: rows that did not change since are not in it');
  });
});

describe('a switch', () => {
  test('takes rows, columns, quarantine and contract over, and the stream goes on in it; undo brings all back', async () => {
    await history();
    await setHead(await bounded(20));
    await parts.reader.commit([put(7, 70, 'parked'), put(8, 8, 'eight')]);
    await ingest.drain();
    expect(await parkedIds()).toHaveLength(1);
    const text = await changed((properties) => {
      properties.items[1]?.deleteIn(['logicalTypeOptions', 'maximum']);
      properties.items[2]?.set('customProperties', parseDocument('[{property: piiAction, value: drop}]').contents);
    });
    await build({ contract: { file: 'other.yaml', text } });
    await parts.reader.commit([put(9, 9, 'before the switch'), remove(4)]);
    await ingest.drain();
    expect(await swap()).toMatchObject({ contractChanged: true });
    const now = { 1: [10, undefined], 5: [50, undefined], 7: [70, undefined], 8: [8, undefined], 9: [9, undefined] };
    expect(await cells()).toEqual(now);
    expect(await parkedIds()).toEqual([]);
    await parts.reader.commit([put(1, 99, UNCHANGED, 'u'), remove(9), put(4, 44, 'again')]);
    await ingest.drain();
    const later = { 1: [99, undefined], 4: [44, undefined], 5: [50, undefined], 7: [70, undefined], 8: [8, undefined] };
    expect(await cells()).toEqual(later);
    expect(await inPlace()).toMatchObject({ applied: 0, unsettledKeys: 0 });
    await restart();
    expect(await cells()).toEqual(later);

    expect(await undo()).toMatchObject({ contractChanged: true });
    // By the contract of before: 99, 44 and 70 are too much again, and their rows stand as they were.
    expect(await cells()).toEqual({ 1: [10, 'one'], 5: [50, 'two'], 8: [8, 'eight'] });
    expect(await parkedIds()).toHaveLength(3);
    await parts.reader.commit([put(1, 11, 'back', 'u'), put(10, 10, 'ten')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [11, 'back'], 5: [50, 'two'], 8: [8, 'eight'], 10: [10, 'ten'] });
    await restart();
    await expect(undo()).rejects.toThrow('was not swapped');
    await swap();
    expect(await cells()).toMatchObject({ 1: [11, undefined], 4: [44, undefined], 7: [70, undefined] });
  });

  test('inside a transaction of the source that is not over', async () => {
    await history();
    await build({ contract: { file: 'other.yaml', text: await withoutBody() } });
    await parts.reader.commit([put(6, 6, 'half')], { open: true });
    await ingest.drain();
    await swap();
    await parts.reader.commit([put(7, 7, 'the other half')]);
    await ingest.drain();
    expect(await cells()).toMatchObject({ 6: [6, undefined], 7: [7, undefined] });
    await undo();
    expect(await cells()).toEqual({ ...AFTER, 6: [6, 'half'], 7: [7, 'the other half'] });
  });

  test('widens a column', async () => {
    await history();
    const text = await changed((properties) => {
      properties.items[1]?.set('physicalType', 'bigint');
      properties.items[1]?.setIn(['logicalTypeOptions', 'format'], 'i64');
    });
    await build({ contract: { file: 'wide.yaml', text } });
    const found = await diffBuild(replay, { table: T, into: INTO }, { signal: quiet.signal, samplesMax: 5 });
    expect(found).toMatchObject({ changed: 0, added: 0, removed: 0 });
    await swap();
    await parts.reader.commit([put(1, 12, UNCHANGED, 'u')]);
    await ingest.drain();
    const rows = await cells();
    expect(Object.fromEntries(Object.entries(rows).map(([key, [n, body]]) => [key, [Number(n), body]]))).toEqual({
      ...AFTER,
      1: [12, 'one'],
    });
  });

  test.each(['after-swap-record', 'before-swap-commit', 'after-swap-commit'])(
    'killed at %s is finished, or taken back',
    async (point) => {
      await history();
      await setHead(await bounded(60));
      await parts.reader.commit([put(7, 70, 'parked')]);
      await ingest.drain();
      const before = [await cells(), await parkedIds()];
      await build({ contract: { file: 'other.yaml', text: await withoutBody() } });
      failAt = point;
      await expect(swap()).rejects.toThrow('killed');
      await restart();
      const committed = point === 'after-swap-commit';
      expect((await cells())['1']).toEqual([10, committed ? undefined : 'one']);
      expect(await parkedIds()).toEqual(before[1]);
      expect((await readFile(join(parts.folder, 'contracts', 'public.t.odcs.yaml'), 'utf8')).includes('drop')).toBe(
        committed,
      );
      await parts.reader.commit([put(8, 8, 'eight')]);
      await ingest.drain();
      expect((await cells())['8']).toEqual([8, committed ? undefined : 'eight']);
      if (!committed) await swap();
      failAt = point;
      await expect(undo()).rejects.toThrow('killed');
      await restart();
      expect((await cells())['8']).toEqual([8, committed ? 'eight' : undefined]);
      if (!committed) await undo();
      expect(await cells()).toEqual({ ...(before[0] as object), 8: [8, 'eight'] });
      expect(await parkedIds()).toEqual(before[1]);
    },
  );

  test('mends a table that its contract stopped', async () => {
    await parts.reader.commit([put(1, 1, 'one')]);
    await ingest.drain();
    const plain = await readFile(join(parts.folder, 'contracts', 'public.t.odcs.yaml'), 'utf8');
    await setHead('no: contract');
    await parts.reader.commit([put(2, 2, 'two')]);
    await expect.poll(() => owner().state(), { timeout: 240_000 }).toBe('CONTRACT_FAILED');
    await build({ contract: { file: 'plain.yaml', text: plain } });
    await swap();
    expect(await cells()).toEqual({ 1: [1, 'one'], 2: [2, 'two'] });
    await parts.reader.commit([put(3, 3, 'three')]);
    await ingest.drain();
    expect(owner().state()).toBe('STREAMING');
    expect(await cells()).toEqual({ 1: [1, 'one'], 2: [2, 'two'], 3: [3, 'three'] });
  });
});

describe('retention', () => {
  /** The log as it is when retention has taken everything below an offset. */
  function trimmed(earliest: bigint): ReplayParts {
    const { reader } = parts.log;
    const log = Object.assign(Object.create(parts.log) as typeof parts.log, {
      reader: Object.assign(Object.create(reader) as typeof reader, {
        async bounds(topic: string) {
          const found = await reader.bounds(topic);
          if (topic !== 'shop.public.t') return found;
          return new Map([...found].map(([partition, { end }]) => [partition, { earliest, end }]));
        },
      }),
    });
    return { ...replay, log };
  }

  test('that took the beginning is refused by what is missing, until the table was read whole again', async () => {
    await history();
    const request = { table: T, into: INTO, from: null, to: NOW, contract: null };
    await expect(buildTable(trimmed(4n), request, quiet)).rejects.toMatchObject({
      code: 'REPLAY_RANGE_GONE',
      exit: 4,
      message: expect.stringContaining('offsets 0 to 3 of partition 0'),
      remedy: expect.stringContaining('sluice backfill public.t'),
    });
    await expect(cells('public/t_new')).rejects.toThrow();
    const request2 = { ...request, from: { point: parseRangePoint('--from', 'offset:2'), text: 'offset:2' } };
    await expect(buildTable(trimmed(4n), request2, quiet)).rejects.toMatchObject({ code: 'REPLAY_RANGE_GONE' });
    const reading = { snapshotting: ['public.t'] };
    await parts.reader.commit([put(1, 10, 'one', 'r'), put(4, 4, 'four', 'r')], reading);
    await parts.reader.commit([put(4, 40, UNCHANGED, 'u')], reading);
    await parts.reader.commit([put(5, 50, 'two', 'r')]);
    await ingest.drain();
    expect(await buildTable(trimmed(6n), request, quiet)).toMatchObject({ range: { base: 'read' } });
    expect(await cells('public/t_new')).toEqual({ ...AFTER, 4: [40, 'four'] });
    expect(await cells()).toEqual({ ...AFTER, 4: [40, 'four'] });
    replay = trimmed(6n);
    await swap();
    expect(await cells()).toEqual({ ...AFTER, 4: [40, 'four'] });
  });
});

describe('in place', () => {
  test('heals what a corrected contract lets through, in order, and twice the same', async () => {
    await history();
    await setHead(await bounded(20));
    await parts.reader.commit([put(6, 60, 'six'), put(7, 70, 'seven')]);
    await parts.reader.commit([put(7, 71, UNCHANGED, 'u')]);
    await parts.reader.commit([put(6, 61, 'six again', 'u'), put(8, 80, 'eight')]);
    await parts.reader.commit([remove(8)]);
    await ingest.drain();
    const before = await parkedIds();
    expect(await inPlace()).toMatchObject({ applied: 0, released: 0 });
    expect(await parkedIds()).toEqual(before);
    await setHead(await bounded(1000));
    await inPlace();
    expect(await cells()).toEqual({ ...AFTER, 6: [61, 'six again'], 7: [71, 'seven'] });
    expect(await parkedIds()).toEqual([]);
    expect(await inPlace()).toMatchObject({ applied: 0, released: 0, parkedAgain: 0 });
  });

  test('killed, goes on; and begins anew when the table was set back meanwhile', async () => {
    await history();
    failAt = 'after-replay-batch';
    await expect(inPlace()).rejects.toThrow('killed');
    failAt = null;
    expect(await inPlace()).toMatchObject({ resumed: true, applied: 0 });
    failAt = 'after-replay-batch';
    await expect(inPlace()).rejects.toThrow('killed');
    await ingest.stop(1000);
    failAt = null;
    // Its newest rows are lost, those that the killed replay went over among them.
    const { restoreTable } = await import('../../lakehouse/upkeep/restore.ts');
    const { subStore } = await import('../../lakehouse/store/sub-store.ts');
    await restoreTable(subStore(parts.lake, 'public/t'), 0n);
    ingest = await start();
    await ingest.drain();
    // The fence of key 2 stands: what the moved row took over from it is the source's to tell.
    expect(await inPlace()).toMatchObject({ resumed: false, unsettled: [['5']], unsettledKeys: 1 });
    expect(await cells()).toEqual({ 1: AFTER[1], 4: AFTER[4] });
  });

  test('leaves an event alone that a person gave up', async () => {
    await history();
    await setHead(await bounded(20));
    await parts.reader.commit([put(6, 60, 'given up')]);
    await ingest.drain();
    await ingest.quarantine('public.t')?.drop(new Set(await parkedIds()));
    await setHead(await bounded(1000));
    expect(await inPlace()).toMatchObject({ applied: 0, released: 0 });
    expect(await cells()).toEqual(AFTER);
  });

  test('names the keys that only the source can settle', async () => {
    await parts.reader.commit([put(1, 1, 'one')]);
    await parts.reader.commit([put(1, 2, UNCHANGED, 'u')]);
    await ingest.drain();
    await ingest.stop(1000);
    // The row is lost from the lake behind the stream's back: an empty table is swapped in by hand.
    const { restoreTable } = await import('../../lakehouse/upkeep/restore.ts');
    const { subStore } = await import('../../lakehouse/store/sub-store.ts');
    await restoreTable(subStore(parts.lake, 'public/t'), 0n);
    ingest = await start();
    await ingest.drain();
    expect(await inPlace('offset:1')).toMatchObject({ applied: 0, unsettled: [['1']], unsettledKeys: 1 });
    expect(await parkedIds()).toEqual([]);
    expect(await inPlace()).toMatchObject({ applied: 1, unsettledKeys: 0 });
    expect(await cells()).toEqual({ 1: [2, 'one'] });
  });
});
