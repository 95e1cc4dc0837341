import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { registerStoreSuite } from './register-store-suite.ts';

registerStoreSuite({
  name: 'the file store',
  open: async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-store-'));
    return { store: createFileStore(folder), undo: () => rm(folder, { recursive: true, force: true }) };
  },
});

describe('the file store', () => {
  it('leaves no temporary file behind a lost race and shows none of another process', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-store-'));
    try {
      const store = createFileStore(folder);
      const body = new TextEncoder().encode('x');
      await Promise.all(Array.from({ length: 8 }, () => store.putIfAbsent('d/k', body)));
      expect(await readdir(join(folder, 'd'))).toEqual(['k']);
      await promisify(execFile)('touch', [join(folder, 'd', '.sluice-tmp-of-a-killed-process')]);
      const keys: string[] = [];
      for await (const { key } of store.list('')) keys.push(key);
      expect(keys).toEqual(['d/k']);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('leaves no empty folder behind a delete, and no write fails by that', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-store-'));
    try {
      const store = createFileStore(folder);
      const body = new TextEncoder().encode('x');
      await store.put('kept', body);
      const busy = async (name: string): Promise<void> => {
        for (let turn = 0; turn < 100; turn++) {
          await store.put(`a/b/${name}`, body);
          await store.delete([`a/b/${name}`]);
        }
      };
      await Promise.all(['one', 'two', 'three'].map(busy));
      expect(await readdir(folder)).toEqual(['kept']);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
