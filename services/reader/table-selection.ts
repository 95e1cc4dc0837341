/** Which tables the reader takes, which it refuses, and how one is planned for its snapshot. */
import type { TableShape } from '../log/event.ts';
import type { ShapeEncoder } from '../log/envelope-encode.ts';
import { findTable, listTables, otherRelations, type SourceTable } from './catalog.ts';
import { findPublication, type Publication, type PublishedTable } from './publication.ts';
import { ReaderError } from './reader-error.ts';
import type { PublishedScope, TableSeen, TableState } from './reader-state.ts';
import { bareFromCatalog, describeColumns, keyOf, type BareShape, type ShapeHistory } from './shapes.ts';
import type { SourceSession } from './source.ts';
import { matchesGlobs } from './table-globs.ts';
import { requireReplicable } from './table-key.ts';
import { nameClash, type LogKind } from './table-names.ts';
import type { TableRoute } from './table-route.ts';
import { blocksPerChunk, plannedState, planHeap, type TablePlan } from './snapshot-plan.ts';

export interface RefusedTable {
  readonly schema: string;
  readonly table: string;
  readonly error: ReaderError;
}

export interface SelectedTables {
  readonly taken: readonly SourceTable[];
  readonly refused: readonly RefusedTable[];
}

/** The tables that match, without those that cannot be replicated whole: they are refused by name, the others go on. */
export async function selectTables(
  session: SourceSession,
  globs: readonly string[],
  logKind: LogKind,
  known: readonly TableState[] = [],
): Promise<SelectedTables> {
  const all = await listTables(session);
  return select(
    all.filter(({ schema, table }) => matchesGlobs(globs, schema, table)),
    logKind,
    known,
  );
}

const SHOWN_MAX = 3;

/** Why globs match no table: what they match may be no table. */
export async function noTables(session: SourceSession, globs: readonly string[]): Promise<ReaderError> {
  const others = await otherRelations(session);
  const found = others.filter(({ schema, table }) => matchesGlobs(globs, schema, table));
  const shown = found.slice(0, SHOWN_MAX).map(({ schema, table, kind }) => `${schema}.${table} is a ${kind}`);
  const message = `no table matches ${globs.join(', ')}`;
  return found.length === 0
    ? new ReaderError('NO_TABLES', message, {
        remedy: 'correct source.tables (globs on schema.table), or create the tables first',
      })
    : new ReaderError('NO_TABLES', `${message}: ${shown.join(', ')}${found.length > SHOWN_MAX ? ', …' : ''}`, {
        remedy:
          'name the tables that its rows come from: a view has no changes in the WAL, and a partition goes with its root',
      });
}

/**
 * Of tables that are wanted together. Of two that the lake could not keep apart, the one that is followed already stays; where
 * none is, neither is taken: which one stands there is not known.
 */
export function select(
  tables: readonly SourceTable[],
  logKind: LogKind,
  known: readonly TableState[] = [],
): SelectedTables {
  const followed = new Set(known.flatMap(({ oid, phase }) => (phase === 'removed' ? [] : [oid])));
  const refused: RefusedTable[] = [];
  const whole: SourceTable[] = [];
  const refuse = ({ schema, table }: SourceTable, error: ReaderError): void =>
    void refused.push({ schema, table, error });
  for (const table of tables) {
    const error = refusalOf(table);
    if (error === null) whole.push(table);
    else refuse(table, error);
  }
  const standing = whole.filter(({ oid }) => followed.has(oid));
  const taken = whole.filter((table) => {
    const error = nameClash(table, followed.has(table.oid) ? standing : whole, logKind);
    if (error !== null) refuse(table, error);
    return error === null;
  });
  return { taken, refused };
}

export function refusalOf(table: SourceTable): ReaderError | null {
  try {
    requireReplicable(table);
    return null;
  } catch (error) {
    if (error instanceof ReaderError) return error;
    throw error;
  }
}

export function newTableState(table: SourceTable, nowMs: number, waitForXid: string | null): TableState {
  return {
    schema: table.schema,
    table: table.table,
    oid: table.oid,
    phase: 'snapshotting',
    stopped: null,
    snapshot: 1,
    waitForXid,
    heaps: [],
    rows: 0,
    startedAtMs: nowMs,
    partitions: leaves(table),
    seen: seenOf(table),
  };
}

export function seenOf(table: SourceTable): TableSeen {
  const files = Object.fromEntries(table.heaps.map((heap) => [`${heap.schema}.${heap.table}`, heap.relfilenode]));
  return { attributes: table.attributes, files };
}

/** Names of the leaf partitions; empty for a plain table. */
export function leaves(table: SourceTable): readonly string[] {
  return table.relkind === 'p' ? table.heaps.map((heap) => `${heap.schema}.${heap.table}`) : [];
}

export function scopeOf({ rowFilter, columns, entries }: PublishedTable): PublishedScope {
  return { rowFilter, columnList: columns, entries };
}

export function publishedTable(publication: Publication, schema: string, table: string): PublishedTable | null {
  return publication.tables.find((each) => each.schema === schema && each.table === table) ?? null;
}

export interface PlanContext {
  readonly publication: string;
  readonly history: ShapeHistory;
  readonly encoderFor: (shape: TableShape) => ShapeEncoder;
  readonly noteShape: (shape: TableShape) => void;
  readonly chunkRows: number;
  /** Marks what is replaced before the log. */
  readonly mark: (bare: BareShape) => BareShape;
}

/** The rows in the log have another key: the heartbeat says so in a moment, and must not take this shape for theirs. */
function refuseOtherKey(stands: TableShape | null, { schema, table, key }: BareShape): void {
  if (stands === null || keyOf(stands).join('\0') === key.join('\0')) return;
  throw new ReaderError(
    'TABLE_KEY_MISMATCH',
    `the key of ${schema}.${table} was (${keyOf(stands).join(', ')}) and is now (${key.join(', ')})`,
    { retriable: true },
  );
}

/** Looks the table up anew and lays out what is still to be read. @throws ReaderError if it cannot be taken any more */
export async function planTable(session: SourceSession, route: TableRoute, context: PlanContext): Promise<TablePlan> {
  const { schema, table: name } = route;
  const { snapshot } = route.state;
  const table = await findTable(session, schema, name);
  if (table === null) throw new ReaderError('TABLE_NOT_FOUND', `table ${schema}.${name} does not exist any more`);
  requireReplicable(table);
  const publication = await findPublication(session, context.publication);
  const published = publication === null ? null : publishedTable(publication, schema, name);
  if (publication === null || published === null) {
    throw new ReaderError(
      'PUBLICATION_MISSING_TABLE',
      `table ${schema}.${name} is not in publication "${context.publication}"`,
    );
  }
  const bare = context.mark(await bareFromCatalog(session, table, published, publication.storedGenerated));
  const absent = bare.key.filter((column) => !bare.columns.some((each) => each.name === column));
  if (absent.length > 0) {
    throw new ReaderError(
      'TABLE_NO_KEY',
      `the column list of ${schema}.${name} in publication "${context.publication}" leaves out the key's ${absent.join(', ')}`,
    );
  }
  // Only a snapshot from its beginning takes up another scope, and the table as it is now. One that goes on, and rows fetched
  // beside the stream, keep theirs: what was altered since the rows in the log were read is for the heartbeat to find.
  const begins = route.state.phase === 'snapshotting' && route.state.heaps.length === 0;
  if (!begins) refuseOtherKey(context.history.latest(schema, name), bare);
  let shape = context.history.known(bare);
  if (shape === null) {
    shape = context.history.add(bare, await describeColumns(session, bare));
    context.noteShape(shape);
  } else if (begins && context.history.use(shape)) {
    // A key that was gone and came back, read again: no event says so.
    context.noteShape(shape);
  }
  const encoder = context.encoderFor(shape);
  route.encoder ??= encoder;
  const perChunk = blocksPerChunk(table.estimatedRows, table.blocks, context.chunkRows);
  const heaps = table.heaps.map((heap) => planHeap(heap, route.state, perChunk));
  const plan = { route, heaps, shape: encoder, rowFilter: published.rowFilter, reading: 0 };
  // To be read again since the catalog was asked: the next plan is of what stands there by then.
  if (route.state.snapshot !== snapshot) return plan;
  if (begins) route.keyRead = bare.key;
  route.state = {
    ...plannedState(route.state, heaps),
    ...(begins
      ? { oid: table.oid, partitions: leaves(table), seen: seenOf(table), published: scopeOf(published) }
      : {}),
  };
  return plan;
}
