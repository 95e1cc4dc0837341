import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createKeyRecorder } from './key-recorder.ts';
import { parseSnapshot } from './visibility.ts';

const numRuns = Number(process.env['SLUICE_TEST_RUNS'] ?? '1') * 200;
const SEES_TO_10 = parseSnapshot('11:11:');

describe('key recorder', () => {
  it('emits what nobody touched, and what the snapshot sees', () => {
    const recorder = createKeyRecorder(() => [], 100);
    recorder.write(5, 'a', [2]);
    expect(recorder.fate('a', SEES_TO_10)).toBe('emit');
    expect(recorder.fate('b', SEES_TO_10)).toBe('emit');
  });

  it('fills just the columns that no invisible event carried', () => {
    const recorder = createKeyRecorder(() => [], 100);
    recorder.write(11, 'a', [1, 2]);
    expect(recorder.fate('a', SEES_TO_10)).toEqual({ columns: [1, 2], keyCells: null });
    recorder.write(12, 'a', [2, 3]);
    expect(recorder.fate('a', SEES_TO_10)).toEqual({ columns: [2], keyCells: null });
    recorder.write(13, 'a', []);
    expect(recorder.fate('a', SEES_TO_10)).toBe('skip');
    recorder.remove(14, 'b');
    recorder.write(15, 'b', []);
    expect(recorder.fate('b', SEES_TO_10)).toBe('skip');
  });

  it('follows a row from key to key', () => {
    const recorder = createKeyRecorder(() => [], 100);
    const cells = [Buffer.from('2')];
    recorder.write(11, '1', [4, 5]);
    recorder.move(12, '1', '2', [4, 5], cells);
    recorder.write(13, '2', [5]);
    expect(recorder.fate('1', SEES_TO_10)).toEqual({ columns: [5], keyCells: cells });
    // Another row that an old snapshot shows under the new key.
    expect(recorder.fate('2', SEES_TO_10)).toBe('skip');
    recorder.remove(14, '2');
    expect(recorder.fate('1', SEES_TO_10)).toBe('skip');
  });

  it('drops every row older than a TRUNCATE that the snapshot does not see', () => {
    const recorder = createKeyRecorder(() => [], 100);
    recorder.truncate(11);
    expect(recorder.isEmpty).toBe(false);
    expect(recorder.fate('a', SEES_TO_10)).toBe('skip');
    recorder.prune([parseSnapshot('12:12:')]);
    expect(recorder.fate('a', SEES_TO_10)).toBe('emit');
    expect(recorder.isEmpty).toBe(true);
  });

  it('forgets only what every snapshot sees, and starts a generation when it is full', () => {
    const unseen = new Set([3]);
    const recorder = createKeyRecorder(() => unseen, 3);
    recorder.write(9, 'a', []);
    recorder.write(11, 'b', [1]);
    recorder.prune([SEES_TO_10, parseSnapshot('9:9:')]);
    expect(recorder.fate('a', parseSnapshot('9:9:'))).toBe('skip');
    recorder.prune([SEES_TO_10]);
    expect(recorder.fate('b', SEES_TO_10)).toEqual({ columns: [1], keyCells: null });
    const { generation } = recorder;
    unseen.add(12);
    recorder.write(12, 'c', []);
    recorder.write(12, 'd', []);
    recorder.write(12, 'e', []);
    expect(recorder.generation).toBe(generation + 1);
    expect([...recorder.unseenAtOpen]).toEqual([3, 12]);
  });

  it('agrees with replaying the events on a model row', () => {
    const event = fc.record({
      key: fc.constantFrom('a', 'b'),
      kind: fc.constantFrom('write', 'delete'),
      unchanged: fc.subarray([1, 2, 3]),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), fc.integer({ min: 0, max: 12 }), (events, seen) => {
        const recorder = createKeyRecorder(() => [], 1000);
        events.forEach((each, i) => {
          if (each.kind === 'delete') recorder.remove(i, each.key);
          else recorder.write(i, each.key, each.unchanged);
        });
        const snapshot = parseSnapshot(`${seen}:${seen}:`);
        for (const key of ['a', 'b']) {
          const later = events.filter((each, i) => each.key === key && i >= seen);
          const last = later.at(-1);
          // Columns of the snapshot's row that are still the row's after the later events.
          let left = [1, 2, 3];
          for (const each of later)
            left = each.kind === 'delete' ? [] : left.filter((column) => each.unchanged.includes(column));
          const fate = recorder.fate(key, snapshot);
          if (last === undefined) expect(fate).toBe('emit');
          else if (last.kind === 'delete' || left.length === 0) expect(fate).toBe('skip');
          else expect(fate).toEqual({ columns: left, keyCells: null });
        }
      }),
      { numRuns },
    );
  });
});
