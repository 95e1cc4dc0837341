import { describe, expect, it } from 'vitest';
import type { TableShape } from '../../log/event.ts';
import { bucketOf, rowHash, type BucketSums } from './buckets.ts';
import { drawSample, inSample, sampledShare } from './buckets.ts';
import { imageOf, shownImage, type Images } from './row-image.ts';
import { VERIFY_DEFAULTS, verifyTable, type VerifyPorts } from './verify.ts';

const shape: TableShape = { schema: 'public', table: 't', oid: 1, version: 1, columns: [] };
type Rows = Map<string, string>;

function sums(rows: Rows, buckets: number): BucketSums {
  const byBucket = new Map<number, { rows: number; sum: bigint }>();
  for (const [key, text] of rows) {
    const bucket = bucketOf(key, buckets);
    const old = byBucket.get(bucket) ?? { rows: 0, sum: 0n };
    byBucket.set(bucket, { rows: old.rows + 1, sum: old.sum + rowHash(text) });
  }
  return { rows: rows.size, byBucket };
}

function images(rows: Rows, keep: (key: string) => boolean): Images {
  return new Map([...rows].filter(([key]) => keep(key)).map(([key, text]) => [key, { ...imageOf(''), print: text }]));
}

/** Two in-memory sides; `beforeRound` plays the writer between two looks. */
function ports(
  source: Rows,
  lake: Rows,
  options: { parked?: string[]; beforeLook?: (look: number) => void; chosen?: (key: string) => boolean } = {},
): VerifyPorts {
  let look = 0;
  const chosen = options.chosen ?? (() => true);
  const side = (rows: Rows) => ({
    sums: (buckets: number) => Promise.resolve(sums(rows, buckets)),
    images: (buckets: number, wanted: ReadonlySet<number>) =>
      Promise.resolve(images(rows, (key) => wanted.has(bucketOf(key, buckets)))),
    rows: (keys: readonly string[]) => Promise.resolve(images(rows, (key) => keys.includes(key))),
    texts: (keys: readonly string[]) => Promise.resolve(new Map([...rows].filter(([key]) => keys.includes(key)))),
    selected: (keys: readonly string[]) => Promise.resolve(new Set(keys.filter(chosen))),
    selects: (texts: ReadonlyMap<string, string>) => Promise.resolve(new Set([...texts.keys()].filter(chosen))),
  });
  return {
    source: () => {
      options.beforeLook?.(look);
      look += 1;
      return Promise.resolve({ lsn: BigInt(look), ...side(new Map(source)), close: () => Promise.resolve() });
    },
    reached: () => Promise.resolve(),
    lake: () => Promise.resolve({ version: BigInt(look), ...side(new Map(lake)) }),
    parked: () => Promise.resolve(new Set(options.parked)),
  };
}

const table = (count: number): Rows => new Map(Array.from({ length: count }, (_, i) => [`1:${i}`, `1:${i}5:row-${i}`]));

describe('verifyTable', () => {
  it('passes equal tables in the first pass', async () => {
    const result = await verifyTable(shape, ports(table(5000), table(5000)));
    expect(result).toMatchObject({ equal: true, sourceRows: 5000, lakeRows: 5000, rounds: 0, differences: [] });
  });

  it('finds a changed cell, a missing row, an extra row and a swapped pair', async () => {
    const lake = table(5000);
    lake.set('1:7', 'changed');
    lake.delete('1:8');
    lake.set('1:x', 'extra');
    const swapped = lake.get('1:10') ?? '';
    lake.set('1:10', lake.get('1:11') ?? '');
    lake.set('1:11', swapped);
    const result = await verifyTable(shape, ports(table(5000), lake));
    expect(result.equal).toBe(false);
    expect(result.differences.map(({ key, kind }) => `${key} ${kind}`).toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
      '1:10 differs',
      '1:11 differs',
      '1:7 differs',
      '1:8 missing',
      '1:x extra',
    ]);
  });

  it('does not call a row different that moved on while it looked', async () => {
    const [source, lake] = [table(100), table(100)];
    const result = await verifyTable(
      shape,
      ports(source, lake, {
        beforeLook(look) {
          // The source is always one step ahead until look 5; then the lake catches up.
          if (look < 5) source.set('1:1', `v${look}`);
          lake.set('1:1', look < 5 ? `v${look - 1}` : (source.get('1:1') ?? ''));
        },
      }),
    );
    expect(result).toMatchObject({ equal: true, unsettled: 0 });
    expect(result.rounds).toBeGreaterThan(1);
  });

  it('does not call a row different that went back and forth between two looks', async () => {
    const [source, lake] = [table(10), table(10)];
    let written = 0;
    const both = ports(source, lake, {
      beforeLook(look) {
        // Each look at the source meets one state of the row, each look at the lake the other, until the writer rests.
        source.set('1:1', 'on');
        lake.set('1:1', look < 4 ? 'off' : 'on');
        if (look < 4) written += 2;
      },
    });
    const versioned: VerifyPorts = {
      ...both,
      async source(of) {
        const snapshot = await both.source(of);
        const version = String(written);
        const rows = async (keys: readonly string[]): Promise<Images> =>
          new Map([...(await snapshot.rows(keys))].map(([key, image]) => [key, { ...image, version }]));
        return { ...snapshot, rows };
      },
    };
    expect(await verifyTable(shape, versioned)).toMatchObject({ equal: true, differences: [], unsettled: 0 });
  });

  it('does not call a row different that left the quarantine while it looked', async () => {
    const lake = table(10);
    lake.delete('1:3');
    const both = ports(table(10), lake);
    let asked = 0;
    const released: VerifyPorts = {
      ...both,
      parked() {
        asked++;
        if (asked === 1) return Promise.resolve(new Set(['1:3']));
        lake.set('1:3', table(10).get('1:3') ?? '');
        return Promise.resolve(new Set<string>());
      },
    };
    expect(await verifyTable(shape, released)).toMatchObject({ equal: true, differences: [], unsettled: 0 });
    expect(asked).toBe(2);
  });

  it('reports a row that never stands still as unsettled, not as equal', async () => {
    const [source, lake] = [table(10), table(10)];
    let n = 0;
    const result = await verifyTable(
      shape,
      ports(source, lake, { beforeLook: () => void source.set('1:1', `v${(n += 1)}`) }),
    );
    expect(result).toMatchObject({ equal: false, unsettled: 1, rounds: VERIFY_DEFAULTS.roundsMax });
  });

  it('counts only differences that the condition selects, in the lake, too', async () => {
    const lake = table(100);
    for (const key of ['1:3', '1:4']) lake.set(key, 'changed');
    for (const key of ['1:30', '1:40']) lake.delete(key);
    for (const key of ['1:x3', '1:x4']) lake.set(key, 'extra');
    const result = await verifyTable(shape, ports(table(100), lake, { chosen: (key) => key.includes('3') }), {
      ...VERIFY_DEFAULTS,
      conditional: true,
    });
    expect(result.differences.map(({ key, kind }) => `${key} ${kind}`).toSorted()).toEqual([
      '1:3 differs',
      '1:30 missing',
      '1:x3 extra',
    ]);
  });

  it('draws samples of the share that was asked for, in runs that do not overlap', () => {
    for (const share of [0.00001, 0.01, 0.25, 0.5, 0.9, 1]) {
      for (let seed = 0; seed < 2; seed += 1) {
        const sample = drawSample(share, 65_536, () => ((seed * 7919) % 1000) / 1000);
        const inside = Array.from({ length: 65_536 }, (_, bucket) => inSample(sample, bucket)).filter(Boolean).length;
        expect(inside / 65_536).toBeCloseTo(sampledShare(sample), 9);
        expect(sampledShare(sample)).toBeCloseTo(Math.max(share, 1 / 65_536), 4);
      }
    }
  });

  it('keeps of a row its lengths and hashes alone', () => {
    const image = imageOf('1:7~0:6:secret');
    expect(shownImage(image)).toBe('1 ~ 0 6');
    expect(JSON.stringify(image)).not.toContain('secret');
  });

  it('finds a difference behind more moving rows than are looked at at once', async () => {
    const [source, lake] = [table(400), table(400)];
    for (let i = 0; i < 300; i += 1) lake.set(`1:${i}`, 'behind');
    lake.set('1:399', 'changed');
    const catchUp = (look: number): void => {
      if (look > 0) for (let i = 0; i < 300; i += 1) lake.set(`1:${i}`, source.get(`1:${i}`) ?? '');
    };
    const options = { ...VERIFY_DEFAULTS, imagesMax: 50, candidatesMax: 100 };
    const result = await verifyTable(shape, ports(source, lake, { beforeLook: catchUp }), options);
    expect(result.differences.map(({ key }) => key)).toEqual(['1:399']);
    expect(result.unsettled).toBe(0);
  });

  it('does not call equal what it did not look at', async () => {
    const [source, lake] = [table(300), table(300)];
    for (let i = 0; i < 300; i += 1) lake.set(`1:${i}`, 'behind');
    const catchUp = (look: number): void => {
      if (look > 0) for (const [key, text] of source) lake.set(key, text);
    };
    const options = { ...VERIFY_DEFAULTS, imagesMax: 10, candidatesMax: 5 };
    const result = await verifyTable(shape, ports(source, lake, { beforeLook: catchUp }), options);
    expect(result).toMatchObject({ equal: false, unsettled: 1 });
  });

  it('sets parked keys apart', async () => {
    const lake = table(10);
    lake.delete('1:3');
    const result = await verifyTable(shape, ports(table(10), lake, { parked: ['1:3'] }));
    expect(result).toMatchObject({ equal: true, parkedKeys: 1, differences: [] });
  });

  it('stays within its limits when everything differs', async () => {
    const lake = new Map([...table(400)].map(([key]) => [key, 'other']));
    const result = await verifyTable(shape, ports(table(400), lake), {
      ...VERIFY_DEFAULTS,
      imagesMax: 50,
      candidatesMax: 100,
      differencesMax: 10,
    });
    expect(result.equal).toBe(false);
    expect(result.differences).toHaveLength(10);
  });
});
