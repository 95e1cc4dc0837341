import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fetchOnce } from './fetch-once.ts';

describe('fetchOnce', () => {
  let cache: string;
  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), 'sluice-fetch-'));
  });
  afterEach(() => {
    rmSync(cache, { recursive: true, force: true });
  });

  const fill =
    (text: string) =>
    async (folder: string): Promise<void> => {
      writeFileSync(join(folder, 'file'), text);
    };

  it('fills once', async () => {
    const folder = await fetchOnce(cache, 'thing', fill('first'));
    expect(await fetchOnce(cache, 'thing', fill('second'))).toBe(folder);
    expect(readFileSync(join(folder, 'file'), 'utf8')).toBe('first');
  });

  it('gives all racers one complete folder and leaves no staging', async () => {
    const folders = await Promise.all(['a', 'b', 'c'].map((text) => fetchOnce(cache, 'thing', fill(text))));
    expect(new Set(folders).size).toBe(1);
    expect(readdirSync(cache)).toEqual(['thing']);
  });

  it('leaves nothing after a failure, and tries again', async () => {
    const failing = async (folder: string): Promise<void> => {
      writeFileSync(join(folder, 'half'), '');
      throw new Error('network');
    };
    await expect(fetchOnce(cache, 'thing', failing)).rejects.toThrow('network');
    expect(readdirSync(cache)).toEqual([]);
    expect(existsSync(join(await fetchOnce(cache, 'thing', fill('x')), 'file'))).toBe(true);
  });

  it('replaces a folder that a cleaner went through', async () => {
    mkdirSync(join(cache, 'thing'));
    writeFileSync(join(cache, 'thing', 'rest'), '');
    const folder = await fetchOnce(cache, 'thing', fill('whole'));
    expect(readdirSync(folder).toSorted()).toEqual(['.complete', 'file']);
  });
});
