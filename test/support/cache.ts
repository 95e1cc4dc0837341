import { fileURLToPath } from 'node:url';

/** Where fetched servers are kept between runs: `.cache/` at the repository's root, out of version control. */
export function cacheFolder(): string {
  return fileURLToPath(new URL('../../.cache', import.meta.url));
}
