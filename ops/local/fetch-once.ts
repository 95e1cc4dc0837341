/** Fetch into a folder once, also when several processes want it at the same time. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * The folder `<cache>/<name>`, filled by `fill` (into a staging folder beside it) when it is not there yet. Complete or
 * absent, never half: the rename is the last step. Of two processes that race, one result stays.
 */
export async function fetchOnce(cache: string, name: string, fill: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(cache, name);
  const complete = join(folder, '.complete');
  if (existsSync(complete)) return folder;
  await mkdir(cache, { recursive: true });
  const staging = await mkdtemp(join(cache, `.${name}-`));
  try {
    await fill(staging);
    await writeFile(join(staging, '.complete'), '');
    try {
      await rename(staging, folder);
    } catch (error) {
      if (!existsSync(complete)) {
        // What stands there lacks its marker (a cleaner went through the cache): put it away and take its place.
        if (!existsSync(folder)) throw error;
        await rename(folder, join(staging, '.previous'));
        await rename(staging, folder);
        await rm(join(folder, '.previous'), { recursive: true, force: true });
      }
    }
    return folder;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}
