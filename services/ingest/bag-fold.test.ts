import { describe, expect, it } from 'vitest';
import { MergeOp, RowOutcome } from '../../lakehouse/merge/merge.ts';
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import { OCCURRENCE, ROW_HASH } from '../log/bag-key.ts';
import { ROW_OPS } from '../stream/sink.ts';
import { foldBag, type ProbeTable } from './bag-fold.ts';
import { EventKind } from './fold.ts';
import type { IngestBatch } from './ingest-batch.ts';

type Change = readonly ['+' | '-' | '=', string];

const texts = (values: readonly string[]): ColumnVector => {
  const data = Buffer.from(values.join(''));
  const offsets = new Int32Array(values.length + 1);
  values.forEach((value, i) => (offsets[i + 1] = (offsets[i] ?? 0) + value.length));
  return { kind: 'utf8', length: values.length, validity: null, offsets, data };
};

function batchOf(changes: readonly Change[], truncateAt: number | null = null): IngestBatch {
  const keys = [...new Set(changes.map(([, key]) => key))];
  const field = (name: string, type: 'string' | 'integer') => ({ name, type, nullable: true, metadata: {} });
  return {
    rowCount: changes.length,
    schema: { type: 'struct', fields: [field(ROW_HASH, 'string'), field(OCCURRENCE, 'integer')] },
    columns: [
      texts(changes.map(([, key]) => key)),
      { kind: 'int32', length: changes.length, validity: null, values: new Int32Array(changes.length) },
    ],
    keyColumns: [ROW_HASH, OCCURRENCE],
    keys,
    keyCount: keys.length,
    keyIds: Int32Array.from(changes.map(([, key]) => keys.indexOf(key))),
    kinds: Uint8Array.from(changes.map(([kind]) => (kind === '-' ? EventKind.delete : EventKind.upsert))),
    ops: Uint8Array.from(
      changes.map(([kind]) => ROW_OPS.indexOf(kind === '-' ? 'delete' : kind === '+' ? 'insert' : 'update')),
    ),
    epochs: new Int32Array(changes.length).fill(1),
    lsns: BigUint64Array.from(changes.map((_, i) => BigInt(i + 1))),
    ords: new Int32Array(changes.length),
    truncate: truncateAt === null ? null : { epoch: 1, lsn: BigInt(truncateAt), ord: 0 },
  } as unknown as IngestBatch;
}

/** A table that has so many rows of each key. */
function tableOf(rows: Readonly<Record<string, number>>): ProbeTable {
  return (batch) => {
    const [hashes, places] = batch.columns;
    if (hashes?.kind !== 'utf8' || places?.kind !== 'int32') throw new Error('not a probe');
    const outcomes = new Uint8Array(batch.rowCount);
    for (let i = 0; i < batch.rowCount; i++) {
      const key = Buffer.from(hashes.data).toString('utf8', hashes.offsets[i], hashes.offsets[i + 1]);
      outcomes[i] = (places.values[i] ?? 0) < (rows[key] ?? 0) ? RowOutcome.delete : RowOutcome.noop;
    }
    return Promise.resolve({ outcomes });
  };
}

async function folded(changes: readonly Change[], rows: Record<string, number>, truncateAt: number | null = null) {
  const { folded: found, input } = await foldBag(batchOf(changes, truncateAt), tableOf(rows));
  const [hashes, places] = input.columns;
  if (hashes?.kind !== 'utf8' || places?.kind !== 'int32') throw new Error('not a bag');
  const out = Array.from({ length: input.rowCount }, (_, i) => {
    const key = Buffer.from(hashes.data).toString('utf8', hashes.offsets[i], hashes.offsets[i + 1]);
    return `${input.ops[i] === MergeOp.delete ? '-' : '+'}${key}${places.values[i]}@${input.lsn[i]}`;
  });
  expect(found.rowCount + found.folded + found.noop).toBe(changes.length);
  return { out, noop: found.noop };
}

describe('fold of a table without key', () => {
  it('gives a row that comes the next place, and takes the last place from one that goes', async () => {
    expect((await folded([['+', 'a']], {})).out).toEqual(['+a0@1']);
    expect((await folded([['+', 'a']], { a: 3 })).out).toEqual(['+a3@1']);
    expect((await folded([['-', 'a']], { a: 3 })).out).toEqual(['-a2@1']);
  });

  it('comes to nothing where as many come as go', async () => {
    const changes: Change[] = [
      ['+', 'a'],
      ['-', 'a'],
      ['-', 'b'],
      ['+', 'b'],
      ['=', 'c'],
    ];
    expect(await folded(changes, { b: 2, c: 1 })).toEqual({ out: [], noop: 0 });
  });

  it('counts a delete of what is not there as nothing', async () => {
    expect(
      await folded(
        [
          ['-', 'a'],
          ['+', 'a'],
        ],
        {},
      ),
    ).toEqual({ out: ['+a0@2'], noop: 1 });
  });

  it('begins at nothing behind a TRUNCATE', async () => {
    const changes: Change[] = [
      ['+', 'a'],
      ['-', 'b'],
      ['+', 'a'],
      ['+', 'a'],
    ];
    expect((await folded(changes, { a: 9, b: 9 }, 3)).out).toEqual(['+a0@3', '+a1@4']);
  });

  it('comes to the same counts as a multiset, whatever the order', async () => {
    let seed = 5;
    const next = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    for (let round = 0; round < 300; round++) {
      const start: Record<string, number> = { a: next(40), b: next(3), c: 0 };
      const model = { ...start };
      const changes: Change[] = [];
      for (let i = next(60); i >= 0; i--) {
        const key = 'abc'[next(3)] ?? 'a';
        const kind = next(2) === 0 ? '+' : '-';
        changes.push([kind, key]);
        model[key] = Math.max(0, (model[key] ?? 0) + (kind === '+' ? 1 : -1));
      }
      const rows = new Map(
        Object.entries(start).map(([key, count]) => [key, new Set(Array.from({ length: count }, (_, i) => i))]),
      );
      for (const text of (await folded(changes, start)).out) {
        const [, kind = '', key = '', place = ''] = /^([+-])(.)(\d+)@/.exec(text) ?? [];
        if (kind === '+') rows.get(key)?.add(Number(place));
        else rows.get(key)?.delete(Number(place));
      }
      for (const [key, places] of rows)
        expect([...places].sort((a, b) => a - b)).toEqual(Array.from({ length: model[key] ?? 0 }, (_, i) => i));
    }
  });
});
