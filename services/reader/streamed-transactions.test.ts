import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createStreamedTransactions, type StreamedTransactions } from './streamed-transactions.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function opened(bytesMax: number): { streamed: StreamedTransactions; folder: string } {
  const base = mkdtempSync(join(tmpdir(), 'sluice-streamed-'));
  folders.push(base);
  const folder = join(base, 'streamed');
  return { streamed: createStreamedTransactions({ bytesMax, folder }), folder };
}

/** `I | xid | text`, somewhere in a longer buffer. */
function message(xid: number, text: string): Buffer {
  const head = Buffer.alloc(5);
  head.write('I', 0, 'latin1');
  head.writeUInt32BE(xid, 1);
  return Buffer.concat([Buffer.from('..'), head, Buffer.from(text), Buffer.from('..')]);
}

async function add(streamed: StreamedTransactions, xid: number, text: string, top = xid): Promise<void> {
  streamed.start(top);
  const bytes = message(xid, text);
  await streamed.add(bytes, 2, bytes.length - 2);
  streamed.stop();
}

async function taken(streamed: StreamedTransactions, xid: number): Promise<string[]> {
  const out: string[] = [];
  for await (const { bytes, ranges } of streamed.take(xid))
    for (let i = 0; i < ranges.length; i += 2) out.push(bytes.toString('utf8', ranges[i], ranges[i + 1]));
  return out;
}

describe.each([
  ['in memory', 1_000_000],
  ['on disk', 0],
  ['partly on disk', 3_000],
] as const)('%s', (_where, bytesMax) => {
  it('keeps transactions apart, in order, without what was aborted', async () => {
    const { streamed, folder } = opened(bytesMax);
    const expected: string[] = [];
    for (let i = 0; i < 400; i++) {
      await add(streamed, 7, `seven ${i}`);
      await add(streamed, 9, `nine ${i}`);
      await add(streamed, 71 + (i % 3), `sub ${i}`, 7);
      expected.push(`Iseven ${i}`);
      if (i % 3 !== 1) expected.push(`Isub ${i}`);
    }
    await streamed.abort(7, 72);
    expect(await taken(streamed, 7)).toEqual(expected);
    await streamed.abort(9, 9);
    expect(await taken(streamed, 9)).toEqual([]);
    expect([streamed.bytesHeld, streamed.bytesOnDisk]).toEqual([0, 0]);
    expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
  });

  it('keeps messages of any size', async () => {
    const { streamed } = opened(bytesMax);
    const texts = ['', 'x'.repeat(3_000_000), 'y', 'z'.repeat(300_000)];
    for (const text of texts) await add(streamed, 5, text);
    expect((await taken(streamed, 5)).map((text) => text.length)).toEqual(texts.map((text) => text.length + 1));
    await add(streamed, 6, 'left');
    await streamed.close();
    expect(streamed.bytesHeld).toBe(0);
  });
});

it('leaves out origins, and refuses what belongs to no block', async () => {
  const { streamed } = opened(100);
  streamed.start(3);
  expect(streamed.inBlock).toBe(true);
  await streamed.add(Buffer.from('O12345678name'), 0, 13);
  streamed.stop();
  expect(() => streamed.add(Buffer.from('I'), 0, 1)).toThrow(/outside of a stream block/);
  expect(await taken(streamed, 3)).toEqual([]);
  expect(await taken(streamed, 4)).toEqual([]);
});
