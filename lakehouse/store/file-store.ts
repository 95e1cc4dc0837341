/**
 * ADAPTER ObjectStore on a local file system.
 *
 * Every write goes to a temporary file beside its target, is fsynced, and then appears under its name in one step: by
 * `rename` (put) or by `link` (putIfAbsent; EEXIST = lost). `open(wx)` would show half a file to readers, and `rename`
 * overwrites, so neither can create conditionally. The directory is fsynced before the call returns: an entry that a
 * power loss may take back is not durable.
 */
import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, rename, rm, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { assertKey, compareKeys } from './key-order.ts';
import { StoreError } from './store.ts';
import type { ByteRange, ObjectMeta, ObjectStore, PutIfAbsentResult, StoreErrorCode } from './store.ts';

/** Name prefix of files in the making; never listed. */
const TEMP_PREFIX = '.sluice-tmp-';
/** stat calls in flight during a listing. */
const STAT_BATCH = 64;
/** Tries to write into a folder that another call removes as empty. */
const FOLDER_TRIES = 10;

export function createFileStore(root: string): ObjectStore {
  const base = resolve(root);
  const pathOf = (key: string): string => {
    assertKey(key);
    return join(base, ...key.split('/'));
  };
  return {
    uri: pathToFileURL(base).href.replace(/\/$/, ''),
    get: async (key, range) => readFileRange(key, pathOf(key), range),
    head: async (key) => {
      try {
        const found = await stat(pathOf(key));
        return found.isFile() ? { key, sizeBytes: found.size, modifiedMs: Math.floor(found.mtimeMs) } : null;
      } catch (error) {
        if (isAbsent(error)) return null;
        throw wrap(error, key, 'look at');
      }
    },
    list: (prefix, options) => listFiles(base, prefix, options?.startAfter),
    put: async (key, body) => {
      const target = pathOf(key);
      const temp = await writeTemp(key, target, body);
      try {
        await rename(temp, target);
        await syncDirectory(dirname(target));
      } catch (error) {
        await rm(temp, { force: true });
        throw wrap(error, key, 'write');
      }
    },
    putIfAbsent: async (key, body) => createExclusively(key, pathOf(key), body),
    delete: async (keys) => {
      const folders = new Set<string>();
      for (const key of keys) {
        const path = pathOf(key);
        try {
          await unlink(path);
          folders.add(dirname(path));
        } catch (error) {
          if (!isAbsent(error)) throw wrap(error, key, 'delete');
        }
      }
      for (const folder of folders) await removeEmptyFolders(base, folder);
    },
    close: async () => {},
  };
}

async function createExclusively(key: string, target: string, body: Uint8Array): Promise<PutIfAbsentResult> {
  const temp = await writeTemp(key, target, body);
  try {
    await link(temp, target);
  } catch (error) {
    await rm(temp, { force: true });
    const code = codeOf(error);
    if (code === 'EEXIST') return 'exists';
    if (code === 'EPERM' || code === 'ENOTSUP' || code === 'ENOSYS') {
      throw new StoreError(
        'STORE_CONDITION_IGNORED',
        key,
        'this file system has no hard links, so a commit cannot be created exclusively; put the lake on another one',
        { cause: error },
      );
    }
    throw wrap(error, key, 'create');
  }
  try {
    await unlink(temp);
    await syncDirectory(dirname(target));
  } catch (error) {
    // The name stands, but it may not survive a power loss: the caller reads back and decides.
    throw new StoreError('STORE_OUTCOME_UNKNOWN', key, `"${key}" was created but not confirmed on disk`, {
      cause: error,
    });
  }
  return 'created';
}

/** Folders are no objects: one that a delete emptied goes, and its parents with it, up to the store's root. */
async function removeEmptyFolders(base: string, folder: string): Promise<void> {
  for (let at = folder; at.startsWith(base + sep); at = dirname(at)) {
    try {
      await rmdir(at);
    } catch {
      // Not empty, or another delete was faster: either way there is nothing to do.
      return;
    }
  }
}

/** Writes and fsyncs a temporary file beside `target`, making its directory when absent. Returns the temporary path. */
async function writeTemp(key: string, target: string, body: Uint8Array): Promise<string> {
  const temp = join(dirname(target), `${TEMP_PREFIX}${randomUUID()}`);
  try {
    for (let tries = 1; ; tries++) {
      try {
        if (tries > 1) await makeDirectory(dirname(target));
        await writeSynced(temp, body);
        return temp;
      } catch (error) {
        // A delete beside us may take the folder away again while it is still empty.
        if (codeOf(error) !== 'ENOENT' || tries === FOLDER_TRIES) throw error;
      }
    }
  } catch (error) {
    // What failed first is what the user has to mend.
    await rm(temp, { force: true }).catch(() => undefined);
    throw wrap(error, key, 'write');
  }
}

async function writeSynced(path: string, body: Uint8Array): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await file.writeFile(body);
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Makes a directory and every missing parent, and fsyncs each parent that got a new entry. Not by mkdir's `recursive`: that
 * runs for ever where the system calls an existing parent missing (below /proc).
 */
async function makeDirectory(path: string): Promise<void> {
  const parent = dirname(path);
  try {
    await makeOne(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || parent === path) throw error;
    await makeDirectory(parent);
    await makeOne(path);
  }
}

async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && (await stat(path)).isDirectory()) return;
    throw error;
  }
  await syncDirectory(dirname(path));
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function readFileRange(key: string, path: string, range: ByteRange | undefined): Promise<Uint8Array> {
  try {
    const file = await open(path, 'r');
    try {
      if (range === undefined) return await file.readFile();
      const wanted = range.end - range.start;
      const body = new Uint8Array(Math.max(wanted, 0));
      let filled = 0;
      while (filled < wanted) {
        const { bytesRead } = await file.read(body, filled, wanted - filled, range.start + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      if (range.start < 0 || wanted < 0 || filled < wanted) {
        throw new StoreError(
          'STORE_TRUNCATED',
          key,
          `asked for bytes ${range.start}..${range.end} of "${key}", got ${filled}`,
        );
      }
      return body;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw wrap(error, key, 'read');
  }
}

async function* listFiles(base: string, prefix: string, startAfter: string | undefined): AsyncIterable<ObjectMeta> {
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  yield* walk(base, folder, prefix, startAfter);
}

/** Depth first; a directory sorts as its name with a slash, so that keys come out in byte order. */
async function* walk(
  base: string,
  folder: string,
  prefix: string,
  startAfter: string | undefined,
): AsyncIterable<ObjectMeta> {
  let found;
  try {
    found = await readdir(join(base, ...folder.split('/')), { withFileTypes: true });
  } catch (error) {
    if (isAbsent(error)) return;
    throw wrap(error, folder, 'list');
  }
  const names = found
    .filter((entry) => !entry.name.startsWith(TEMP_PREFIX))
    .map((entry) => folder + entry.name + (entry.isDirectory() ? '/' : ''))
    .filter((key) => key.startsWith(prefix) || (key.endsWith('/') && prefix.startsWith(key)))
    .filter((key) => {
      if (startAfter === undefined || compareKeys(key, startAfter) > 0) return true;
      return key.endsWith('/') && startAfter.startsWith(key);
    })
    .sort(compareKeys);
  for (let at = 0; at < names.length;) {
    const directory = names[at];
    if (directory !== undefined && directory.endsWith('/')) {
      yield* walk(base, directory, prefix, startAfter);
      at++;
      continue;
    }
    const batch: string[] = [];
    while (batch.length < STAT_BATCH && names[at]?.endsWith('/') === false) batch.push(names[at++] ?? '');
    for (const meta of await Promise.all(batch.map((key) => statEntry(base, key)))) {
      if (meta !== null) yield meta;
    }
  }
}

/** Null when the file went away between listing and look, as on any store. */
async function statEntry(base: string, key: string): Promise<ObjectMeta | null> {
  try {
    const found = await stat(base + sep + key.split('/').join(sep));
    return found.isFile() ? { key, sizeBytes: found.size, modifiedMs: Math.floor(found.mtimeMs) } : null;
  } catch (error) {
    if (isAbsent(error)) return null;
    throw wrap(error, key, 'list');
  }
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

function isAbsent(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}

const CODES: Readonly<Record<string, StoreErrorCode>> = {
  ENOENT: 'STORE_NOT_FOUND',
  ENOTDIR: 'STORE_NOT_FOUND',
  EISDIR: 'STORE_NOT_FOUND',
  ENOSPC: 'STORE_DISK_FULL',
  EDQUOT: 'STORE_DISK_FULL',
  EACCES: 'STORE_ACCESS_DENIED',
  EPERM: 'STORE_ACCESS_DENIED',
  EROFS: 'STORE_ACCESS_DENIED',
};

/** Why a file has no place to be written to. */
const NO_FOLDER: Readonly<Record<string, string>> = {
  ENOTDIR: 'a file stands where its folder must be',
  ENOENT: 'its folder cannot be made',
};

function wrap(error: unknown, key: string, action: string): StoreError {
  if (error instanceof StoreError) return error;
  const code = codeOf(error);
  const missing = action === 'write' && code !== null ? NO_FOLDER[code] : undefined;
  if (missing !== undefined)
    return new StoreError('STORE_CONTAINER_MISSING', key, `cannot write "${key}": ${missing}`, { cause: error });
  const kind = (code === null ? undefined : CODES[code]) ?? 'STORE_UNAVAILABLE';
  return new StoreError(kind, key, `cannot ${action} "${key}": ${code ?? 'unknown error'}`, { cause: error });
}
