import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MergeOp } from '../../lakehouse/merge/merge.ts';
import { propertyRuns } from '../../test/support/row-events.ts';
import { EventKind, fold } from './fold.ts';
import type { FoldInput } from './fold.ts';

/** One event of the naive model: columns a and b, undefined = not carried. */
interface Event {
  readonly kind: number;
  readonly key: number;
  readonly other: number;
  readonly lsn: number;
  readonly ord: number;
  readonly a: number | undefined;
  readonly b: number | undefined;
}

function inputOf(events: readonly Event[], keyCount: number, truncateLsn: number | null): FoldInput {
  const bits = (column: 'a' | 'b'): Uint8Array | null => {
    const out = new Uint8Array((events.length + 7) >> 3);
    let any = false;
    events.forEach((event, i) => {
      if (event.kind === EventKind.delete || event[column] !== undefined) return;
      out[i >> 3]! |= 1 << (i & 7);
      any = true;
    });
    return any ? out : null;
  };
  return {
    rowCount: events.length,
    kinds: Uint8Array.from(events, ({ kind }) => kind),
    keyIds: Int32Array.from(events, ({ key }) => key),
    keyCount,
    otherKeyIds: Int32Array.from(events, ({ other }) => other),
    epochs: new Int32Array(events.length).fill(1),
    lsns: BigUint64Array.from(events, ({ lsn }) => BigInt(lsn)),
    ords: Int32Array.from(events, ({ ord }) => ord),
    absent: [null, bits('a'), bits('b')],
    truncate: truncateLsn === null ? null : { epoch: 1, lsn: BigInt(truncateLsn), ord: 0 },
  };
}

/** A row: its columns, or the name of the table row that still gives a column ('base:<key>'). */
type Row = { a: number | string; b: number | string } | 'gone' | 'unknown';

/** Applies events one after another, a row a time, as a person would. */
function naive(events: readonly Event[], truncateLsn: number | null): Map<number, Row> {
  const rows = new Map<number, Row>();
  const seen = new Map<number, number>();
  const state = (key: number): Row => rows.get(key) ?? { a: `base:${key}`, b: `base:${key}` };
  for (const event of [...events].sort((x, y) => x.lsn - y.lsn || x.ord - y.ord)) {
    if (truncateLsn !== null && event.lsn < truncateLsn) continue;
    const at = event.lsn * 1000 + event.ord;
    if ((seen.get(event.key) ?? -1) >= at) continue;
    seen.set(event.key, at);
    if (event.kind === EventKind.delete) {
      // The insert half of a key change still needs the row as it was.
      rows.set(-1 - event.key, state(event.key));
      rows.set(event.key, 'gone');
      continue;
    }
    const before = event.other >= 0 ? (rows.get(-1 - event.other) ?? 'unknown') : state(event.key);
    if (event.kind === EventKind.fill && before === 'gone') continue;
    const complete = event.a !== undefined && event.b !== undefined;
    if (typeof before === 'string' && !complete) {
      rows.set(event.key, 'unknown');
      continue;
    }
    const base = typeof before === 'string' ? { a: 0, b: 0 } : before;
    rows.set(event.key, { a: event.a ?? base.a, b: event.b ?? base.b });
  }
  for (const key of rows.keys()) if (key < 0) rows.delete(key);
  return rows;
}

const value = fc.option(fc.integer({ min: 0, max: 99 }), { nil: undefined });
const step = fc.record({
  what: fc.integer({ min: 0, max: 9 }),
  key: fc.integer({ min: 0, max: 3 }),
  to: fc.integer({ min: 0, max: 3 }),
  a: value,
  b: value,
});

/** Histories that a source could make: no update of a deleted row, key changes only onto free keys. */
const history = fc.array(step, { maxLength: 25 }).map((steps) => {
  const gone = new Set<number>();
  const events: Event[] = [];
  steps.forEach(({ what, key, to, a, b }, index) => {
    const lsn = index + 1;
    const base = { key, other: -1, lsn, ord: 0 };
    if (what === 0 && !gone.has(key)) {
      events.push({ ...base, kind: EventKind.delete, a: undefined, b: undefined });
      gone.add(key);
    } else if (what === 1 && !gone.has(key) && key !== to) {
      if (!gone.has(to))
        events.push({ ...base, key: to, lsn: lsn - 0.5, kind: EventKind.delete, a: undefined, b: undefined });
      events.push({ ...base, kind: EventKind.delete, a: undefined, b: undefined });
      events.push({ ...base, key: to, other: key, ord: 1, kind: EventKind.upsert, a, b });
      gone.add(key);
      gone.delete(to);
    } else if (gone.has(key)) {
      events.push({ ...base, kind: EventKind.upsert, a: a ?? 1, b: b ?? 2 });
      gone.delete(key);
    } else events.push({ ...base, kind: EventKind.upsert, a, b });
  });
  return events.map((event) => ({ ...event, lsn: Math.round(event.lsn * 2) }));
});

function check(events: readonly Event[], truncateLsn: number | null): void {
  const input = inputOf(events, 4, truncateLsn);
  const folded = fold(input);
  const expected = naive(events, truncateLsn);
  const seen = new Map<number, Row>();
  for (let out = 0; out < folded.rowCount; out++) {
    const row = folded.rows[out]!;
    const event = events[row]!;
    if (folded.ops[out] === MergeOp.delete) {
      seen.set(event.key, 'gone');
      continue;
    }
    const cell = (column: 1 | 2, name: 'a' | 'b'): number | string => {
      const bits = folded.absent[column];
      if (bits != null && (bits[out >> 3]! & (1 << (out & 7))) !== 0) {
        const base = folded.baseRow?.[out] ?? -1;
        return `base:${base < 0 ? event.key : events[folded.rows[base]!]!.key}`;
      }
      return events[(folded.gather[column] ?? folded.rows)[out]!]![name]!;
    };
    seen.set(event.key, { a: cell(1, 'a'), b: cell(2, 'b') });
  }
  for (const [key, row] of expected) if (row !== 'unknown') expect([key, seen.get(key)]).toEqual([key, row]);
  const out = folded.rowCount + folded.folded + folded.duplicates + folded.stale + folded.noop + folded.missing.length;
  expect(out).toBe(events.length);
}

test('the fold gives each key the row that applying the events one by one gives', () => {
  fc.assert(
    fc.property(history, (events) => check(events, null)),
    { numRuns: propertyRuns(300) },
  );
});

test('a truncate takes what is older than itself, wherever it stands in the batch', () => {
  const events: Event[] = [
    { kind: EventKind.upsert, key: 0, other: -1, lsn: 1, ord: 0, a: 1, b: 1 },
    { kind: EventKind.upsert, key: 1, other: -1, lsn: 9, ord: 0, a: 2, b: 2 },
  ];
  const folded = fold(inputOf(events, 2, 5));
  expect([...folded.rows]).toEqual([1]);
  expect(folded.folded).toBe(1);
});

test('the same position twice is a duplicate, an older one is stale', () => {
  const at = (lsn: number, a: number): Event => ({ kind: EventKind.upsert, key: 0, other: -1, lsn, ord: 0, a, b: a });
  const folded = fold(inputOf([at(5, 1), at(5, 2), at(4, 3), at(6, 4)], 1, null));
  expect([...folded.rows]).toEqual([3]);
  expect([folded.duplicates, folded.stale, folded.folded]).toEqual([1, 1, 1]);
});

test('LSNs are compared as unsigned 64-bit numbers', () => {
  const input = inputOf(
    [1, 2].map((a) => ({ kind: EventKind.upsert, key: 0, other: -1, lsn: a, ord: 0, a, b: a })),
    1,
    null,
  );
  const lsns = BigUint64Array.of(0xffff_ffff_ffff_ffffn, 0x1_0000_0000n);
  expect([...fold({ ...input, lsns }).rows]).toEqual([0]);
});

test('a partial row after a delete has no base: the delete applies, the row is missing', () => {
  const folded = fold(
    inputOf(
      [
        { kind: EventKind.delete, key: 0, other: -1, lsn: 1, ord: 0, a: undefined, b: undefined },
        { kind: EventKind.upsert, key: 0, other: -1, lsn: 2, ord: 0, a: 1, b: undefined },
      ],
      1,
      null,
    ),
  );
  expect([...folded.ops]).toEqual([MergeOp.delete]);
  expect([...folded.missing]).toEqual([1]);
});
