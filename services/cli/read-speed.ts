/**
 * `_sluice/speed.json`: how fast this pipeline read tables the last time, from the source into the lake, all of them together.
 * Estimates go by it; before anything was read they go by an assumption, and say so.
 */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { Config } from '../runtime/config.ts';
import { readLakeDocument } from '../runtime/lake-document.ts';
import { openLake } from './assemble/lake.ts';

export interface ReadSpeed {
  readonly rowsPerSecond: number;
  readonly bytesPerSecond: number;
  /** When it was measured, ms since 1970; null = assumed. */
  readonly measuredAtMs: number | null;
}

/** Through log and merge on a small machine. */
export const ASSUMED_SPEED: ReadSpeed = { rowsPerSecond: 25_000, bytesPerSecond: 8_000_000, measuredAtMs: null };

const KEY = '_sluice/speed.json';
const FORMAT = 1;
/** Less is mostly the start of everything. */
const ROWS_MIN = 10_000;
const MS_MIN = 3_000;

interface Document {
  readonly formatVersion: number;
  readonly rowsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly measuredAtMs: number;
}

export async function readSpeed(lake: ObjectStore): Promise<ReadSpeed> {
  const found = await readLakeDocument<Document>(lake, KEY, FORMAT);
  if (found === null) return ASSUMED_SPEED;
  const { rowsPerSecond, bytesPerSecond, measuredAtMs } = found;
  return { rowsPerSecond, bytesPerSecond, measuredAtMs };
}

/** The same, where the lake is not open. */
export async function speedOf(config: Config): Promise<ReadSpeed> {
  const lake = openLake(config);
  try {
    return await readSpeed(lake);
  } finally {
    await lake.close();
  }
}

export async function writeSpeed(lake: ObjectStore, speed: ReadSpeed): Promise<void> {
  await lake.put(KEY, Buffer.from(`${JSON.stringify({ formatVersion: FORMAT, ...speed })}\n`));
}

export interface ReadProgress {
  /** A table is being read, or what was read of it is not in the lake yet. */
  readonly reading: boolean;
  /** Of all tables' snapshots, so far. */
  readonly rows: number;
  /** Written to the log so far. */
  readonly bytes: bigint;
}

/** Looked at now and then; gives the speed of a reading when the last of its tables is whole. */
export function createSpeedWatch(now: () => number): (progress: ReadProgress) => ReadSpeed | null {
  let begun: { readonly atMs: number; readonly rows: number; readonly bytes: bigint } | null = null;
  return ({ reading, rows, bytes }) => {
    if (reading) {
      begun ??= { atMs: now(), rows, bytes };
      return null;
    }
    if (begun === null) return null;
    const [ms, done, written] = [now() - begun.atMs, rows - begun.rows, Number(bytes - begun.bytes)];
    begun = null;
    if (done < ROWS_MIN || ms < MS_MIN || written <= 0) return null;
    const aSecond = (total: number): number => Math.max(1, Math.round((total * 1_000) / ms));
    return { rowsPerSecond: aSecond(done), bytesPerSecond: aSecond(written), measuredAtMs: now() };
  };
}
