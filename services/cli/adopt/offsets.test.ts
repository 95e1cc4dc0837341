import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../../lakehouse/store/memory-store.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { readOffsets, readSparkCheckpoint } from './offsets.ts';

const put = async (files: Readonly<Record<string, string>>) => {
  const store = createMemoryStore();
  for (const [key, text] of Object.entries(files)) await store.put(key, Buffer.from(text));
  return store;
};

describe('offsets of topics', () => {
  it('come from the command line, from lines of a file and from JSON, with all their digits', () => {
    const folder = temporaryFolder('offsets');
    const expected = new Map([
      [
        'dbz.public.t',
        new Map([
          [0, 9_007_199_254_740_993n],
          [1, 7n],
        ]),
      ],
    ]);
    expect(readOffsets('dbz.public.t:0:9007199254740993,dbz.public.t:1:7', folder)).toEqual(expected);
    writeFileSync(join(folder, 'lines'), '# as of noon\ndbz.public.t:0:9007199254740993\n\ndbz.public.t:1:7\n');
    writeFileSync(join(folder, 'json'), '{"dbz.public.t": {"0": 9007199254740993, "1":7}}');
    expect(readOffsets('lines', folder)).toEqual(expected);
    expect(readOffsets('json', folder)).toEqual(expected);
  });

  it.each([
    '',
    'topic',
    'topic:0',
    'topic:0:-2',
    'topic:0:1,topic:0:2',
    '{"topic":{"0":-1}}',
    '{"topic":{"x":1}}',
    '{',
  ])('are refused as %j', (text) => {
    expect(() => readOffsets(text, temporaryFolder('offsets'))).toThrow(/--offsets|offset|JSON/);
  });
});

describe("a Spark query's checkpoint", () => {
  const offsets = (zero: number): string =>
    `v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"dbz.public.t":{"1":7,"0":${zero}}}`;

  it('gives the offsets of the newest finished batch, not of one that was only begun', async () => {
    const store = await put({
      metadata: '{"id":"q"}',
      'offsets/9': offsets(90),
      'offsets/10': offsets(100),
      'offsets/11': offsets(110),
      'commits/9': 'v1\n{}',
      'commits/10': 'v1\n{}',
      'commits/.10.crc': 'x',
    });
    expect(await readSparkCheckpoint(store)).toEqual({
      queryId: 'q',
      batchId: 10n,
      offsets: new Map([
        [
          'dbz.public.t',
          new Map([
            [0, 100n],
            [1, 7n],
          ]),
        ],
      ]),
    });
  });

  it('is refused without a finished batch, in another format, and without a Kafka source', async () => {
    const of = (files: Readonly<Record<string, string>>) => put(files).then(readSparkCheckpoint);
    await expect(of({})).rejects.toMatchObject({ code: 'ADOPT_POSITION' });
    await expect(of({ 'commits/0': 'v1', 'offsets/0': 'v2\n{}' })).rejects.toThrow(/format v2/);
    await expect(of({ 'commits/0': 'v1', 'offsets/0': 'v1\n{}\n0', metadata: '{"id":"q"}' })).rejects.toThrow(
      /no Kafka/,
    );
  });
});
