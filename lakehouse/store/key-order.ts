/**
 * Order and shape of keys, the same in every adapter: ascending by UTF-8 bytes, as S3 lists them. JavaScript's own string
 * order compares UTF-16 units and differs from it where a surrogate pair meets U+E000..U+FFFF.
 */
import { StoreError } from './store.ts';

// eslint-disable-next-line no-control-regex -- the range is ASCII itself
const ASCII = /^[\x00-\x7f]*$/;

export function compareKeys(a: string, b: string): number {
  if (a === b) return 0;
  if (ASCII.test(a) && ASCII.test(b)) return a < b ? -1 : 1;
  return Buffer.compare(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8'));
}

/**
 * Refuses a key that would leave the store's root or that some adapter could not keep apart from another.
 * @throws StoreError STORE_BAD_URI
 */
export function assertKey(key: string): void {
  const bad =
    key === '' ||
    key.startsWith('/') ||
    key.endsWith('/') ||
    key.includes('\0') ||
    key.split('/').some((part) => part === '' || part === '.' || part === '..');
  if (bad) throw new StoreError('STORE_BAD_URI', key, `not a key inside the store: "${key}"`);
}
