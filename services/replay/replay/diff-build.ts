/** The built table against the one that it may take the place of, both at one place in the log while ingestion goes on. */
import { setTimeout as sleep } from 'node:timers/promises';
import { lakeColumnName } from '../../../contracts/engine/lake-name.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import { openSnapshot, type Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { TableError } from '../../../lakehouse/table/table-error.ts';
import { scanQuarantine } from '../../ingest/quarantine-scan.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import type { CommittedPosition } from '../../ingest/txn-ids.ts';
import { formatLsn, type Lsn } from '../../log/position.ts';
import { dataTopic } from '../../log/topics.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { idOf, openBuild, placeOf, type TableId } from './build-table.ts';
import { isWithin, sameOffsets } from './marks.ts';
import { contractBook, readShapes, shapeOf, type ReplayParts } from './parts.ts';
import { buildContracts } from './replay-record.ts';
import { diffTables, type TableDiff } from './table-diff.ts';

export interface BuildDiff extends TableDiff {
  readonly table: string;
  readonly into: string;
  readonly lsn: string;
  readonly versionBefore: bigint;
  readonly versionAfter: bigint;
  /** False: the table stands still behind the built one, and rows that came since are among the differences. */
  readonly atOneLsn: boolean;
  /** Events in quarantine. */
  readonly parkedBefore: number;
  readonly parkedAfter: number;
}

/** How long a table that moves is waited for, until it has come to where the built one is. */
const WAIT_MS = 15_000;
const POLL_MS = 200;

export async function diffBuild(
  parts: ReplayParts,
  names: { readonly table: TableId; readonly into: TableId },
  options: { readonly signal: AbortSignal; readonly samplesMax: number },
): Promise<BuildDiff> {
  const { schema, table } = names.table;
  const folder = tableFolder(schema, table);
  const partitions = [...(await parts.log.reader.bounds(dataTopic(parts.name, schema, table))).keys()];
  const look = async (): Promise<{ readonly snapshot: Snapshot; readonly place: CommittedPosition }> => {
    const snapshot = await snapshotAt(parts, folder);
    const place = await placeOf(snapshot, parts.name, partitions);
    if (snapshot !== null && place !== null) return { snapshot, place };
    throw new SluiceError('REPLAY_NOT_READY', `${idOf(names.table)} has no rows to compare with yet`, {
      exit: ExitCode.findings,
      remedy: 'let `sluice run` read it first',
    });
  };
  let live = await look();
  /** The built table stepped to a mark, if it is not there yet; its owner meanwhile is this process. */
  const bring = async (
    sequence: number,
  ): Promise<{ readonly snapshot: Snapshot; readonly place: CommittedPosition }> => {
    const build = await openBuild(parts, {
      ...names,
      from: null,
      to: { kind: 'now' },
      contract: null,
      through: sequence,
    });
    try {
      await build.stepTo(sequence, { signal: options.signal });
    } finally {
      await build.close();
    }
    const snapshot = await build.target.snapshot();
    const place = await placeOf(snapshot, parts.name, partitions);
    if (snapshot !== null && place !== null) return { snapshot, place };
    throw new SluiceError('REPLAY_NOT_READY', `${idOf(names.into)} has no rows yet`, {
      exit: ExitCode.findings,
      remedy: `build it first: \`sluice replay ${idOf(names.table)} --into ${idOf(names.into)}\``,
    });
  };
  let built = await bring(live.place.markSequence);
  // A build that was ahead: the table comes there by itself, or passes by, and then the build follows.
  const together = (): boolean => sameOffsets(live.place.nextOffsets, built.place.nextOffsets);
  for (const deadline = Date.now() + WAIT_MS; !together() && Date.now() < deadline && !options.signal.aborted;) {
    live = await look();
    if (!together() && isWithin(built.place.nextOffsets, live.place.nextOffsets))
      built = await bring(live.place.markSequence);
    else if (!together()) await sleep(POLL_MS);
  }
  const diff = await diffTables(live.snapshot, built.snapshot, {
    keyColumns: await keyColumns(parts, names),
    samplesMax: options.samplesMax,
  });
  return {
    ...diff,
    table: idOf(names.table),
    into: idOf(names.into),
    lsn: formatLsn(live.place.lsn as Lsn),
    versionBefore: live.snapshot.version,
    versionAfter: built.snapshot.version,
    atOneLsn: together(),
    parkedBefore: await parkedIn(await snapshotAt(parts, `${folder}__quarantine`)),
    parkedAfter: await parkedIn(
      await snapshotAt(parts, `${tableFolder(names.into.schema, names.into.table)}__quarantine`),
    ),
  };
}

/** By the built table's contract, where the lake has those columns in both. */
async function keyColumns(
  parts: ReplayParts,
  { table, into }: { readonly table: TableId; readonly into: TableId },
): Promise<readonly string[]> {
  const shape = shapeOf(await readShapes(parts), table.schema, table.table);
  const plan = await contractBook(parts, buildContracts(parts.lake, idOf(into))).current(shape, null, null);
  return plan.keySources.map(lakeColumnName);
}

async function parkedIn(snapshot: Snapshot | null): Promise<number> {
  let parked = 0;
  if (snapshot !== null)
    for await (const _ of scanQuarantine(snapshot, { statuses: new Set(['parked']), withBytes: false })) parked++;
  return parked;
}

async function snapshotAt(parts: ReplayParts, folder: string): Promise<Snapshot | null> {
  try {
    return await openSnapshot(subStore(parts.lake, folder));
  } catch (error) {
    if (error instanceof TableError && error.code === 'TABLE_NOT_FOUND') return null;
    throw error;
  }
}
