/** `_sluice/paused.json`: tables that a person paused. They stay paused when the service starts again, on any machine. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { readLakeDocument } from '../runtime/lake-document.ts';

export const PAUSED_KEY = '_sluice/paused.json';
const FORMAT = 1;

interface Document {
  readonly formatVersion: number;
  readonly tables: readonly string[];
}

/** `schema.table` of each. @throws SluiceError FORMAT_NEWER */
export async function readPaused(lake: ObjectStore): Promise<ReadonlySet<string>> {
  return new Set((await readLakeDocument<Document>(lake, PAUSED_KEY, FORMAT))?.tables);
}

export interface PausedTables {
  /** Those of the tables that were not so before. */
  change(tables: readonly string[], pause: boolean): Promise<readonly string[]>;
}

/** One change at a time, each of what stands there now: other workers pause tables, too. */
export function pausedTables(lake: ObjectStore): PausedTables {
  let turn: Promise<unknown> = Promise.resolve();
  async function change(tables: readonly string[], pause: boolean): Promise<readonly string[]> {
    const paused = new Set(await readPaused(lake));
    const due = tables.filter((id) => paused.has(id) !== pause);
    for (const id of due)
      if (pause) paused.add(id);
      else paused.delete(id);
    const body = { formatVersion: FORMAT, tables: [...paused].toSorted() };
    if (due.length > 0) await lake.put(PAUSED_KEY, Buffer.from(`${JSON.stringify(body)}\n`));
    return due;
  }
  return {
    change(tables, pause) {
      const changed = turn.catch(() => undefined).then(() => change(tables, pause));
      turn = changed;
      return changed;
    },
  };
}
