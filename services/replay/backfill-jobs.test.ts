import { describe, expect, it } from 'vitest';
import {
  createBackfillJobs,
  pageRange,
  type BackfillJobs,
  type BackfillPorts,
  type BackfillState,
  type KeptBackfill,
  type SnapshotView,
} from './backfill-jobs.ts';

const REQUEST = { schema: 'public', table: 't', where: null, bytesPerSecond: null, exact: false };
const lost = (): Error => Object.assign(new Error('lost'), { code: 'SOURCE_LOST', retriable: true, remedy: 'wait' });

interface Fake extends BackfillPorts {
  readonly conditions: string[];
  readonly slept: number[];
}

function fake(over: Partial<BackfillPorts> = {}): Fake {
  let time = 0;
  const conditions: string[] = [];
  const slept: number[] = [];
  return {
    conditions,
    slept,
    resnapshot: () => Promise.resolve(),
    fetchRows: (_schema, _table, condition) => {
      conditions.push(condition);
      return Promise.resolve(7);
    },
    snapshot: () => null,
    holdSnapshot: () => undefined,
    measure: () => Promise.resolve({ pages: 1100, few: false }),
    sleep: (ms) => {
      time += ms;
      slept.push(ms);
      return Promise.resolve();
    },
    now: () => time,
    ...over,
  };
}

async function ended(jobs: BackfillJobs): Promise<BackfillState | undefined> {
  for (let turn = 0; turn < 10_000; turn++) {
    const job = jobs.list().at(-1);
    if (job?.phase !== 'running') return job;
    await Promise.resolve();
  }
  throw new Error('the job does not end');
}

describe('a walk', () => {
  it('is held, kept with its place, and taken up by another service', async () => {
    const notes: (readonly KeptBackfill[])[] = [];
    let held: BackfillJobs | null = null;
    const first = fake({
      fetchRows: () => {
        held?.pause('public.t');
        return Promise.resolve(5);
      },
      sleep: () => new Promise((resolve) => setTimeout(resolve, 1)),
      keep: (walks) => {
        notes.push(walks);
        return Promise.resolve();
      },
    });
    held = createBackfillJobs(first);
    held.start({ ...REQUEST, where: 'true' });
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
    expect(held.list().at(-1)).toMatchObject({ phase: 'paused', rows: 5 });
    const kept = notes.at(-1) ?? [];
    expect(kept).toMatchObject([{ where: 'true', page: 512, rows: 5, paused: true }]);

    const second = fake();
    const jobs = createBackfillJobs(second);
    jobs.restore(kept.map((walk) => ({ ...walk, paused: false })));
    expect(await ended(jobs)).toMatchObject({ phase: 'done', rows: 19 });
    expect(second.conditions).toEqual([`(true) AND ${pageRange(512, 1024)}`, `(true) AND ctid >= '(1024,0)'::tid`]);
    held.cancel('public.t');
  });

  it('reads several steps at once', async () => {
    const ports = fake();
    const jobs = createBackfillJobs(ports);
    jobs.start({ ...REQUEST, parallel: 2 });
    expect(await ended(jobs)).toMatchObject({ phase: 'done', rows: 21 });
    expect(ports.conditions).toEqual([pageRange(0, 512), pageRange(512, 1024), `ctid >= '(1024,0)'::tid`]);
  });
});

describe('a backfill', () => {
  it('of a whole table follows the reader to the end of its snapshot', async () => {
    const views: (SnapshotView | null)[] = [
      { snapshotting: false, progress: 0, rows: 5, stopped: null },
      { snapshotting: true, progress: 0.5, rows: 30, stopped: null },
      null,
      { snapshotting: false, progress: 1, rows: 105, stopped: null },
    ];
    const jobs = createBackfillJobs(fake({ snapshot: () => views.shift() ?? null }));
    expect(jobs.start(REQUEST)).toMatchObject({ phase: 'running', resumable: true });
    expect(() => jobs.start(REQUEST)).toThrow(expect.objectContaining({ code: 'BACKFILL_RUNNING' }));
    expect(() => jobs.cancel('public.t')).toThrow(expect.objectContaining({ code: 'BACKFILL_WHOLE' }));
    expect(await ended(jobs)).toMatchObject({ phase: 'done', rows: 100, progress: 1 });
  });

  it('of a whole table is held in the reader, over a restart of the service too, and cannot be cancelled', async () => {
    const notes: (readonly KeptBackfill[])[] = [];
    const told: boolean[] = [];
    let done = false;
    let begun = 0;
    const ports = fake({
      resnapshot: () => {
        begun++;
        return Promise.resolve();
      },
      snapshot: () => ({ snapshotting: !done, progress: 0.5, rows: 10, stopped: null }),
      holdSnapshot: (_schema, _table, hold) => void told.push(hold),
      sleep: () => new Promise((resolve) => setTimeout(resolve, 1)),
      keep: (walks) => {
        notes.push(walks);
        return Promise.resolve();
      },
    });
    const first = createBackfillJobs(ports);
    first.start(REQUEST);
    expect(first.pause('public.t')).toMatchObject({ phase: 'paused' });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(first.list().at(-1)).toMatchObject({ phase: 'paused' });
    expect(new Set(told)).toEqual(new Set([true]));
    expect(() => first.cancel('public.t')).toThrow(expect.objectContaining({ code: 'BACKFILL_WHOLE' }));
    const kept = notes.at(-1) ?? [];
    expect(kept).toMatchObject([{ where: null, paused: true }]);

    const second = createBackfillJobs(ports);
    second.restore(kept);
    expect(second.list().at(-1)).toMatchObject({ phase: 'paused' });
    expect(second.resume('public.t')).toMatchObject({ phase: 'running' });
    expect(told.at(-1)).toBe(false);
    done = true;
    while (second.list().at(-1)?.phase === 'running') await new Promise((resolve) => setTimeout(resolve, 1));
    expect(second.list().at(-1)).toMatchObject({ phase: 'done' });
    expect([begun, notes.at(-1)]).toEqual([1, []]);
  });

  it('tells a table that stopped by name', async () => {
    const stopped = { state: 'KEY_CHANGED', detail: 'the key is another', remedy: 'sluice repair public.t' };
    const jobs = createBackfillJobs(fake({ snapshot: () => ({ snapshotting: false, progress: 0, rows: 0, stopped }) }));
    jobs.start(REQUEST);
    expect(await ended(jobs)).toMatchObject({ phase: 'failed', error: { code: 'KEY_CHANGED' } });
  });

  it('of a condition walks the pages, the last range open', async () => {
    const ports = fake();
    const jobs = createBackfillJobs(ports);
    jobs.start({ ...REQUEST, where: 'a > 1' });
    expect(await ended(jobs)).toMatchObject({ phase: 'done', rows: 21, resumable: true });
    expect(ports.conditions).toEqual([
      `(a > 1) AND ${pageRange(0, 512)}`,
      `(a > 1) AND ${pageRange(512, 1024)}`,
      `(a > 1) AND ctid >= '(1024,0)'::tid`,
    ]);
    expect(ports.slept).toEqual([]);
  });

  it('of few rows is one chunk', async () => {
    const ports = fake({ measure: () => Promise.resolve({ pages: 1100, few: true }) });
    const jobs = createBackfillJobs(ports);
    jobs.start({ ...REQUEST, where: 'a > 1' });
    expect(await ended(jobs)).toMatchObject({ phase: 'done', rows: 7 });
    expect(ports.conditions).toEqual(['a > 1']);
  });

  it('keeps to its rate', async () => {
    const ports = fake();
    const jobs = createBackfillJobs(ports);
    jobs.start({ ...REQUEST, bytesPerSecond: 4_194_304 });
    expect(await ended(jobs)).toMatchObject({ phase: 'done' });
    expect(ports.now()).toBe(2_000);
  });

  it('asks again what a lost connection cost, and gives up at last', async () => {
    let left = 3;
    const once = fake({
      measure: () => (left-- > 0 ? Promise.reject(lost()) : Promise.resolve({ pages: 1, few: false })),
    });
    const jobs = createBackfillJobs(once);
    jobs.start({ ...REQUEST, where: 'true' });
    expect(await ended(jobs)).toMatchObject({ phase: 'done' });
    const never = createBackfillJobs(fake({ measure: () => Promise.reject(lost()) }));
    never.start({ ...REQUEST, where: 'true' });
    expect(await ended(never)).toMatchObject({ phase: 'failed', error: { code: 'SOURCE_LOST', remedy: 'wait' } });
  });

  it('can be cancelled between two chunks, and refuses what is no condition', async () => {
    const ports = fake();
    const jobs = createBackfillJobs(ports);
    jobs.start({ ...REQUEST, where: 'true' });
    expect(jobs.cancel('public.t')).toMatchObject({ phase: 'cancelled' });
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
    expect(jobs.list().at(-1)).toMatchObject({ phase: 'cancelled' });
    expect(ports.conditions.length).toBeLessThan(3);
    expect(() => jobs.cancel('public.t')).toThrow(expect.objectContaining({ code: 'NO_BACKFILL' }));
    expect(() => jobs.start({ ...REQUEST, where: 'true); drop table t' })).toThrow(
      expect.objectContaining({ code: 'CONFIG' }),
    );
  });
});
