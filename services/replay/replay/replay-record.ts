/**
 * What the lake remembers of replays, so that a killed one goes on where it was:
 *
 *   _sluice/replay/<schema>.<table>.json        of a table that a replay builds (named by the table it builds)
 *   _sluice/replay/<schema>.<table>.odcs.yaml   the contract that it is built by
 *   _sluice/swaps/<schema>.<table>.json         of a table of the pipeline: its last swap, and one that was begun
 */
import { getText } from '../../../lakehouse/store/get-text.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { ContractFiles } from '../../ingest/contract-files.ts';
import { readLakeDocument } from '../../runtime/lake-document.ts';

export const REPLAY_FORMAT = 1;

/** Offsets and other 64-bit numbers as text. */
export type OffsetTexts = Readonly<Record<string, string>>;

export interface BuildRecord {
  readonly formatVersion: number;
  /** `schema.table` of the source, and of the table that is built. */
  readonly table: string;
  readonly into: string;
  readonly from: string;
  readonly base: 'beginning' | 'read' | 'middle';
  readonly start: { readonly markSequence: number; readonly nextOffsets: OffsetTexts };
  /** Null: the head contract as it was when the replay began. */
  readonly contractFile: string | null;
  /** Hash of the head contract when the replay began. */
  readonly headHash: string | null;
  /** Hash of the text that the replay began with. */
  readonly contractHash: string;
  readonly startedAtMs: number;
}

/** A table's place in the stream, as a swap keeps it for the way back. */
export interface PlaceRecord {
  readonly epoch: number;
  readonly lsn: string;
  readonly markSequence: number;
  readonly progressOffset: string;
  readonly nextOffsets: OffsetTexts;
  readonly holdBack: OffsetTexts;
}

export interface SwapRecord {
  readonly formatVersion: number;
  readonly table: string;
  readonly into: string;
  readonly kind: 'swap' | 'undo';
  /** Rises with each swap and undo; the table's own transaction of that number says that it was committed. */
  readonly number: number;
  readonly phase: 'begun' | 'done';
  /** Of the table as it was: version, place, version of the quarantine (null = there was none), hash of its contract. */
  readonly version: string;
  readonly place: PlaceRecord;
  readonly quarantineVersion: string | null;
  readonly contractBefore: string | null;
  readonly contractAfter: string | null;
  readonly atMs: number;
  /** The record before this one, where this one may yet be taken back. */
  readonly previous: SwapRecord | null;
}

const buildKey = (into: string): string => `_sluice/replay/${into.replaceAll('/', '_')}.json`;
const contractKey = (into: string): string => `_sluice/replay/${into.replaceAll('/', '_')}.odcs.yaml`;
const swapKey = (table: string): string => `_sluice/swaps/${table.replaceAll('/', '_')}.json`;

export const readBuild = (lake: ObjectStore, into: string): Promise<BuildRecord | null> =>
  readLakeDocument<BuildRecord>(lake, buildKey(into), REPLAY_FORMAT);
export const writeBuild = (lake: ObjectStore, record: BuildRecord): Promise<void> =>
  writeJson(lake, buildKey(record.into), record);
export const readSwap = (lake: ObjectStore, table: string): Promise<SwapRecord | null> =>
  readLakeDocument<SwapRecord>(lake, swapKey(table), REPLAY_FORMAT);
export const writeSwap = (lake: ObjectStore, record: SwapRecord): Promise<void> =>
  writeJson(lake, swapKey(record.table), record);

export const forgetSwap = (lake: ObjectStore, table: string): Promise<void> => lake.delete([swapKey(table)]);

/** The text of a contract that some batch, or a swap, used. */
export const keptContract = (lake: ObjectStore, hash: string): Promise<string | null> =>
  getText(lake, `_sluice/contracts/${hash}.odcs.yaml`);
/** Same name, same bytes: to write it again changes nothing. */
export const keepContract = (lake: ObjectStore, hash: string, text: string): Promise<void> =>
  lake.put(`_sluice/contracts/${hash}.odcs.yaml`, Buffer.from(text));

export async function listBuilds(lake: ObjectStore): Promise<BuildRecord[]> {
  const found: BuildRecord[] = [];
  for await (const { key } of lake.list('_sluice/replay/')) {
    const record = key.endsWith('.json') ? await readLakeDocument<BuildRecord>(lake, key, REPLAY_FORMAT) : null;
    if (record !== null) found.push(record);
  }
  return found;
}

export async function listSwaps(lake: ObjectStore): Promise<SwapRecord[]> {
  const found: SwapRecord[] = [];
  for await (const { key } of lake.list('_sluice/swaps/')) {
    const record = await readLakeDocument<SwapRecord>(lake, key, REPLAY_FORMAT);
    if (record !== null) found.push(record);
  }
  return found;
}

export async function forgetBuild(lake: ObjectStore, into: string): Promise<void> {
  await lake.delete([contractKey(into), buildKey(into)]);
}

/** The contract of a table that is built: grows with the source's columns, as the head contract does, and beside it. */
export function buildContracts(lake: ObjectStore, into: string): ContractFiles {
  const key = contractKey(into);
  return {
    async load() {
      const text = await getText(lake, key);
      return text === null ? null : { file: key, text };
    },
    save: (_schema, _table, text) => lake.put(key, Buffer.from(text)),
  };
}

async function writeJson(lake: ObjectStore, key: string, record: object): Promise<void> {
  await lake.put(key, Buffer.from(`${JSON.stringify(record, null, 2)}\n`));
}
