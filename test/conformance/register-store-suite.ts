/** One behaviour for every ObjectStore. An adapter's test file calls this with a factory of empty stores. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { probeConditionalPut } from '../../lakehouse/store/probe.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { ObjectMeta, ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';

export interface StoreSuite {
  readonly name: string;
  /** An empty store; `undo` is called after the suite. */
  open(): Promise<{ readonly store: ObjectStore; readonly undo: () => Promise<void> }>;
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (body: Uint8Array): string => new TextDecoder().decode(body);

async function all(listing: AsyncIterable<ObjectMeta>): Promise<ObjectMeta[]> {
  const found: ObjectMeta[] = [];
  for await (const meta of listing) found.push(meta);
  return found;
}

export function registerStoreSuite(suite: StoreSuite): void {
  describe(`${suite.name} keeps the ObjectStore contract`, () => {
    let store: ObjectStore;
    let undo: () => Promise<void>;
    beforeAll(async () => ({ store, undo } = await suite.open()));
    afterAll(async () => {
      await store?.close();
      await undo?.();
    });

    it('has a root URI without a trailing slash', () => {
      expect(store.uri).toMatch(/^(file|s3|memory):\/\/.*[^/]$/);
    });

    it('gives back what was put, whole and by range', async () => {
      await store.put('a/whole', bytes('0123456789'));
      expect(text(await store.get('a/whole'))).toBe('0123456789');
      expect(text(await store.get('a/whole', { start: 3, end: 7 }))).toBe('3456');
      expect(text(await store.get('a/whole', { start: 0, end: 1 }))).toBe('0');
      expect(text(await store.get('a/whole', { start: 4, end: 4 }))).toBe('');
      expect(text(await store.get('a/whole', { start: 9, end: 10 }))).toBe('9');
    });

    it('keeps no reference to a buffer it was given or gave', async () => {
      const body = bytes('before');
      await store.put('a/copy', body);
      body.fill(0x78);
      const read = await store.get('a/copy');
      expect(text(read)).toBe('before');
      read.fill(0x78);
      expect(text(await store.get('a/copy'))).toBe('before');
    });

    it('refuses a range that the object does not have', async () => {
      await store.put('a/short', bytes('abc'));
      await expect(store.get('a/short', { start: 1, end: 9 })).rejects.toMatchObject({ code: 'STORE_TRUNCATED' });
      await expect(store.get('a/short', { start: 5, end: 9 })).rejects.toMatchObject({ code: 'STORE_TRUNCATED' });
    });

    it('says NOT_FOUND for an absent key, and null for its head', async () => {
      await expect(store.get('a/absent')).rejects.toMatchObject({ code: 'STORE_NOT_FOUND', key: 'a/absent' });
      await expect(store.get('a/absent', { start: 0, end: 1 })).rejects.toBeInstanceOf(StoreError);
      expect(await store.head('a/absent')).toBeNull();
      expect(await store.head('nowhere/at/all')).toBeNull();
    });

    it('heads an object with size and a plausible time', async () => {
      const before = Date.now();
      await store.put('a/head', bytes('four'));
      const meta = await store.head('a/head');
      expect(meta).toMatchObject({ key: 'a/head', sizeBytes: 4 });
      // S3 has seconds only.
      expect(meta?.modifiedMs).toBeGreaterThan(before - 3_000);
      expect(meta?.modifiedMs).toBeLessThan(Date.now() + 3_000);
    });

    it('overwrites by put, empty bodies too', async () => {
      await store.put('a/over', bytes('one'));
      await store.put('a/over', new Uint8Array(0));
      expect((await store.get('a/over')).length).toBe(0);
      await store.put('a/over', bytes('two'));
      expect(text(await store.get('a/over'))).toBe('two');
    });

    it('creates only once, also when many race', async () => {
      expect(await store.putIfAbsent('race/single', bytes('first'))).toBe('created');
      expect(await store.putIfAbsent('race/single', bytes('second'))).toBe('exists');
      expect(text(await store.get('race/single'))).toBe('first');
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, writer) => store.putIfAbsent('race/many', bytes(`writer ${writer}`))),
      );
      expect(results.filter((result) => result === 'created')).toHaveLength(1);
      expect(text(await store.get('race/many'))).toBe(`writer ${results.indexOf('created')}`);
      expect((await all(store.list('race/'))).map(({ key }) => key)).toEqual(['race/many', 'race/single']);
    });

    it('lists recursively below a string prefix, in byte order, from a start', async () => {
      const keys = ['list/a', 'list/a/b', 'list/a-b', 'list/a.b', 'list/b/c/d', 'list/ba', 'list/é', 'listing'];
      for (const key of keys) {
        // A file and a folder of one name do not go together on a file system.
        if (key !== 'list/a') await store.put(key, bytes(key));
      }
      const order = ['list/a-b', 'list/a.b', 'list/a/b', 'list/b/c/d', 'list/ba', 'list/é'];
      expect((await all(store.list('list/'))).map(({ key }) => key)).toEqual(order);
      expect((await all(store.list('list/a'))).map(({ key }) => key)).toEqual(order.slice(0, 3));
      expect((await all(store.list('list/', { startAfter: 'list/a.b' }))).map(({ key }) => key)).toEqual(
        order.slice(2),
      );
      expect((await all(store.list('list/', { startAfter: 'list/b' }))).map(({ key }) => key)).toEqual(order.slice(3));
      expect((await all(store.list('list/', { startAfter: 'list/zzzz' }))).map(({ key }) => key)).toEqual(['list/é']);
      expect(await all(store.list('nothing/here/'))).toEqual([]);
      const [first] = await all(store.list('listing'));
      expect(first).toMatchObject({ key: 'listing', sizeBytes: 7 });
    });

    it('lists more than one page', async () => {
      const keys = Array.from({ length: 1_203 }, (_, at) => `pages/${String(at).padStart(6, '0')}`);
      for (let at = 0; at < keys.length; at += 50) {
        await Promise.all(keys.slice(at, at + 50).map((key) => store.put(key, bytes('x'))));
      }
      expect((await all(store.list('pages/'))).map(({ key }) => key)).toEqual(keys);
      expect((await all(store.list('pages/', { startAfter: 'pages/000999' }))).map(({ key }) => key)).toEqual(
        keys.slice(1_000),
      );
      await store.delete(keys);
      expect(await all(store.list('pages/'))).toEqual([]);
    });

    it('takes keys of any characters as they are', async () => {
      const keys = ['odd/a b', 'odd/s=a%20b', 'odd/100%', 'odd/p=ä:+&#?', 'odd/日本', 'odd/q"\'`'];
      for (const key of keys) await store.put(key, bytes(key));
      for (const key of keys) expect(text(await store.get(key))).toBe(key);
      expect((await all(store.list('odd/'))).map(({ key }) => key).toSorted()).toEqual(keys.toSorted());
    });

    it.each(['', '/abs', 'a//b', '../up', 'a/../../b', 'dir/', './a'])('refuses to write the key %j', async (key) => {
      await expect(store.put(key, bytes('x'))).rejects.toMatchObject({ code: 'STORE_BAD_URI' });
      await expect(store.putIfAbsent(key, bytes('x'))).rejects.toMatchObject({ code: 'STORE_BAD_URI' });
    });

    it('deletes, and does not mind an absent key', async () => {
      await store.put('gone/a', bytes('a'));
      await store.put('gone/b', bytes('b'));
      await store.delete(['gone/a', 'gone/absent', 'gone/b']);
      await store.delete([]);
      expect(await all(store.list('gone/'))).toEqual([]);
      expect(await store.putIfAbsent('gone/a', bytes('again'))).toBe('created');
    });

    it('keeps a large object exact', async () => {
      const body = new Uint8Array(9 * 1024 * 1024);
      for (let at = 0; at < body.length; at += 4_096) body[at] = at >> 12;
      await store.put('large/object', body);
      expect(Buffer.compare(await store.get('large/object'), body)).toBe(0);
      expect(
        Buffer.compare(
          await store.get('large/object', { start: 5_000_000, end: 8_000_001 }),
          body.subarray(5_000_000, 8_000_001),
        ),
      ).toBe(0);
    });

    it('passes the probe for conditional creation, which leaves nothing behind', async () => {
      await probeConditionalPut(store, randomUUID);
      expect(await all(store.list('_sluice/'))).toEqual([]);
    });

    it('can be seen from one folder down', async () => {
      const below = subStore(store, 'sub/folder');
      await below.put('x/y', bytes('xy'));
      expect(below.uri).toBe(`${store.uri}/sub/folder`);
      expect(text(await store.get('sub/folder/x/y'))).toBe('xy');
      expect((await all(below.list(''))).map(({ key }) => key)).toEqual(['x/y']);
      expect(await below.head('x/y')).toMatchObject({ key: 'x/y' });
      expect(await below.putIfAbsent('x/y', bytes('other'))).toBe('exists');
      await below.delete(['x/y']);
      expect(await below.head('x/y')).toBeNull();
    });
  });
}
