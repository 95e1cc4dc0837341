/**
 * A second table from the log, by the same gate, fold and merge as the stream, under another name: with the head contract, or
 * with a changed one. Its position stands in its own commits and its plans in a checkpoint of its own, so that a build that was
 * killed anywhere goes on where it was. It runs beside the live stream and touches nothing of it.
 */
import { createHash } from 'node:crypto';
import { MergeError } from '../../../lakehouse/merge/merge-error.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import type { ContractText } from '../../ingest/contract-files.ts';
import { addLedgers, EMPTY_LEDGER, type Ledger } from '../../ingest/ledger.ts';
import { tableFolder, type TableTarget } from '../../ingest/table-target.ts';
import { readPosition } from '../../ingest/txn-ids.ts';
import { dataTopic } from '../../log/topics.ts';
import type { LogOffset } from '../../log/position.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { StreamError } from '../../stream/stream-error.ts';
import { findBatch } from './batch-place.ts';
import { assertBuildName, assertNameFree, targetBuilt } from './build-name.ts';
import { distance, timelineUpTo, type OffsetMap } from './marks.ts';
import { contractBook, openStepped, openTarget, readShapes, shapeOf, stepTo } from './parts.ts';
import type { ReplayParts, SteppedTable } from './parts.ts';
import type { RangePoint } from './range-point.ts';
import { resolveRange, type ReplayRange } from './range.ts';
import {
  buildContracts,
  forgetBuild,
  readBuild,
  REPLAY_FORMAT,
  writeBuild,
  type BuildRecord,
} from './replay-record.ts';

export interface TableId {
  readonly schema: string;
  readonly table: string;
}
export const idOf = ({ schema, table }: TableId): string => `${schema}.${table}`;
/** The table's place in the lake. */
export const storeOf = ({ lake }: Pick<ReplayParts, 'lake'>, { schema, table }: TableId): ObjectStore =>
  subStore(lake, tableFolder(schema, table));

export interface BuildRequest {
  readonly table: TableId;
  readonly into: TableId;
  /** Null: not said; a build that goes on keeps its own. */
  readonly from: { readonly point: RangePoint; readonly text: string } | null;
  readonly to: RangePoint;
  /** Null: the head contract, or for a build that goes on its own. */
  readonly contract: ContractText | null;
  /** Mark to be stepped to, where it is not the end of the range. */
  readonly through?: number;
}

export interface BuildProgress {
  readonly table: string;
  readonly into: string;
  readonly done: bigint;
  readonly total: bigint;
  readonly batches: number;
}

export interface BuildResult {
  readonly record: BuildRecord;
  readonly range: ReplayRange;
  readonly resumed: boolean;
  readonly batches: number;
  readonly ledger: Ledger;
  /** Keys whose row is stale because an event of theirs is parked. */
  readonly staleKeys: number;
  readonly awaiting: number;
  readonly version: bigint | null;
}

/** A table that is being built, open along the marks of its range. */
export interface OpenBuild {
  readonly record: BuildRecord;
  readonly range: ReplayRange;
  readonly resumed: boolean;
  readonly target: TableTarget;
  readonly stepped: SteppedTable;
  readonly ledger: () => Ledger;
  readonly batches: () => number;
  /** @throws SluiceError REPLAY_RUNNING where another process builds it, too; the stream's errors */
  stepTo(sequence: number, options: { readonly signal?: AbortSignal; readonly onStep?: () => void }): Promise<void>;
  close(): Promise<void>;
}

/** Runs a build to its end. @throws ConfigError, SluiceError REPLAY_TARGET_TAKEN | REPLAY_RANGE_GONE; the stream's errors */
export async function buildTable(
  parts: ReplayParts,
  request: BuildRequest,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: BuildProgress) => void },
): Promise<BuildResult> {
  const build = await openBuild(parts, request);
  try {
    const { record, range, resumed, stepped } = build;
    const begun = offsetsOf(record);
    const tell = (): void =>
      options.onProgress({
        table: record.table,
        into: record.into,
        done: distance(begun, later(begun, stepped.table.position().nextOffsets)),
        total: distance(begun, range.end.nextOffsets),
        batches: build.batches(),
      });
    await build.stepTo(range.end.mark.sequence, { signal: options.signal, onStep: tell });
    await parts.failpoint('after-replay-build');
    return {
      record,
      range,
      resumed,
      batches: build.batches(),
      ledger: build.ledger(),
      staleKeys: stepped.table.parkedKeys(),
      awaiting: stepped.table.awaitingEvents(),
      version: stepped.table.version(),
    };
  } finally {
    await build.close();
  }
}

/** Opens a build that stands, or begins one. */
export async function openBuild(parts: ReplayParts, request: BuildRequest): Promise<OpenBuild> {
  const standing = await readBuild(parts.lake, idOf(request.into));
  if (standing !== null) assertSameBuild(standing, request);
  else {
    assertBuildName(request.into);
    await assertNameFree(parts.lake, request.into, (await readShapes(parts)).tables());
  }
  const target = openTarget(parts, request.into.schema, request.into.table);
  try {
    const range = await rangeOf(parts, request, standing, target);
    const record = standing ?? (await begin(parts, request, range));
    const through = request.through ?? range.end.mark.sequence;
    return await openAlong(parts, { record, range, resumed: standing !== null, target }, through);
  } catch (error) {
    await target.close();
    throw error;
  }
}

async function openAlong(
  parts: ReplayParts,
  open: Pick<OpenBuild, 'record' | 'range' | 'resumed' | 'target'>,
  through: number,
): Promise<OpenBuild> {
  const { record, target } = open;
  const [schema = '', table = ''] = splitId(record.table);
  let ledger = EMPTY_LEDGER;
  let batches = 0;
  const stepped = await openStepped(parts, {
    schema,
    table,
    target,
    contracts: buildContracts(parts.lake, record.into),
    timeline: await timelineUpTo(parts.log.reader, parts.name, through),
    start: { nextOffsets: offsetsOf(record), markSequence: record.start.markSequence },
    onProgress: (_, result) => {
      ledger = addLedgers(ledger, result.ledger);
      batches++;
    },
  });
  return {
    ...open,
    stepped,
    ledger: () => ledger,
    batches: () => batches,
    stepTo: (sequence, options) => stepTo(stepped.table, sequence, options).catch(inTheWay(record.into)),
    close: () => stepped.close(),
  };
}

const inTheWay =
  (into: string) =>
  (error: unknown): never => {
    if (!(error instanceof MergeError) || error.code !== 'MERGE_TXN_CONFLICT') throw error;
    throw new SluiceError('REPLAY_RUNNING', `another process builds ${into} at this time`, {
      exit: ExitCode.findings,
      remedy: 'wait for it, then give the command again: it goes on from there',
      cause: error,
    });
  };

/** What is left of the range: from the table's own position, where it has one. */
async function rangeOf(
  parts: ReplayParts,
  request: BuildRequest,
  standing: BuildRecord | null,
  target: TableTarget,
): Promise<ReplayRange> {
  const ports = {
    reader: parts.log.reader,
    name: parts.name,
    findBatch: (table: string, batch: bigint) => findBatch(storeOf(parts, request.table), table, batch),
  };
  const { schema, table } = request.table;
  if (standing === null)
    return resolveRange(ports, { schema, table, from: request.from?.point ?? { kind: 'beginning' }, to: request.to });
  const bounds = await parts.log.reader.bounds(dataTopic(parts.name, schema, table));
  const reached = await placeOf(await target.snapshot(), parts.name, bounds.keys());
  const offsets = new Map([...bounds.keys()].map((partition) => [partition, 0n as LogOffset]));
  for (const [partition, offset] of reached?.nextOffsets ?? offsetsOf(standing)) offsets.set(partition, offset);
  return resolveRange(ports, { schema, table, from: { kind: 'offset', offsets }, to: request.to, goesOn: true });
}

export async function placeOf(snapshot: Snapshot | null, name: string, partitions: Iterable<number>) {
  if (snapshot === null) return null;
  return readPosition(async (appId) => snapshot.txns.get(appId)?.version ?? null, name, partitions);
}

async function begin(parts: ReplayParts, request: BuildRequest, range: ReplayRange): Promise<BuildRecord> {
  const { schema, table } = request.table;
  const head = await parts.contracts.load(schema, table);
  const contract = request.contract ?? head;
  // What a begin that was killed left behind is no contract of this one.
  await forgetBuild(parts.lake, idOf(request.into));
  if (contract !== null) {
    await assertUsable(parts, request.table, contract);
    await buildContracts(parts.lake, idOf(request.into)).save(schema, table, contract.text);
  }
  const record: BuildRecord = {
    formatVersion: REPLAY_FORMAT,
    table: idOf(request.table),
    into: idOf(request.into),
    from: request.from?.text ?? 'beginning',
    base: range.base,
    start: {
      markSequence: range.start.markSequence,
      nextOffsets: Object.fromEntries([...range.start.nextOffsets].map(([key, offset]) => [key, String(offset)])),
    },
    contractFile: request.contract?.file ?? null,
    headHash: head === null ? null : hashOf(head.text),
    contractHash: contract === null ? '' : hashOf(contract.text),
    startedAtMs: parts.now(),
  };
  await writeBuild(parts.lake, record);
  return record;
}

/** A contract that could not be used would stop the build at its first batch: better before anything is made. */
async function assertUsable(parts: ReplayParts, { schema, table }: TableId, contract: ContractText): Promise<void> {
  const shape = shapeOf(await readShapes(parts), schema, table);
  const only = { load: async () => contract, save: async () => undefined };
  try {
    await contractBook(parts, only).current(shape, null, null);
  } catch (error) {
    throw new ConfigError(
      error instanceof Error ? error.message : String(error),
      `correct ${contract.file}; \`contracts check\` shows every finding`,
      error,
    );
  }
}

/** @throws SluiceError REPLAY_TARGET_TAKEN where what stands is not what is asked for */
export function assertSameBuild(
  standing: BuildRecord,
  request: Pick<BuildRequest, 'table' | 'into' | 'from' | 'contract'>,
): void {
  const differs =
    standing.table !== idOf(request.table)
      ? `from ${standing.table}`
      : request.from !== null && request.from.text !== standing.from
        ? `--from ${standing.from}`
        : request.contract !== null && hashOf(request.contract.text) !== standing.contractHash
          ? `by ${standing.contractFile ?? 'the head contract'} as it was then`
          : null;
  if (differs !== null) throw targetBuilt(request.into, differs);
}

/**
 * A table that came to the source under the name of one that a replay built would take its rows and its place for its own.
 * @throws StreamError LAKE_TABLE_FOREIGN
 */
export async function assertNotBuilt(lake: ObjectStore, table: TableId): Promise<void> {
  const record = await readBuild(lake, idOf(table));
  if (record !== null)
    throw new StreamError(
      'LAKE_TABLE_FOREIGN',
      `${idOf(table)} is in the lake as what a replay built from ${record.table}`,
      `sluice replay --discard --into ${idOf(table)}, then sluice resume ${idOf(table)}`,
    );
}

/** Removes a table that a replay built, its quarantine, its checkpoint and what is remembered of it. */
export async function discardBuild(parts: ReplayParts, into: TableId): Promise<{ readonly objects: number }> {
  const record = await readBuild(parts.lake, idOf(into));
  if (record === null)
    throw new ConfigError(`no replay built ${idOf(into)}`, '`sluice replay --list` shows what replays have built');
  const folder = tableFolder(into.schema, into.table);
  let objects = 0;
  // The log goes last of a table: half-removed it is still seen to be one.
  for (const own of [folder, `${folder}__quarantine`]) {
    const keys: string[] = [];
    for await (const { key } of parts.lake.list(`${own}/`)) keys.push(key);
    keys.sort((a, b) => Number(a.includes('/_delta_log/')) - Number(b.includes('/_delta_log/')));
    for (let at = 0; at < keys.length; at += 1000) await parts.lake.delete(keys.slice(at, at + 1000));
    objects += keys.length;
  }
  const { store, folder: root } = parts.checkpoint;
  const checkpoint: string[] = [];
  for await (const { key } of store.list(`${root}/${folder.replace('/', '.')}/`)) checkpoint.push(key);
  if (checkpoint.length > 0) await store.delete(checkpoint);
  await forgetBuild(parts.lake, idOf(into));
  return { objects };
}

export function offsetsOf({ start }: BuildRecord): OffsetMap {
  return new Map(
    Object.entries(start.nextOffsets).map(([partition, text]) => [Number(partition), BigInt(text) as LogOffset]),
  );
}

function later(a: OffsetMap, b: OffsetMap): OffsetMap {
  return new Map([...a, ...b]);
}

export function splitId(id: string): readonly string[] {
  const dot = id.indexOf('.');
  return [id.slice(0, dot), id.slice(dot + 1)];
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
