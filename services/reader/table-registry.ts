/** The tables of a run: which are followed, what is written of each, and what stops one of them. */
import type { ShapeEncoder } from '../log/envelope-encode.ts';
import type { TableShape } from '../log/event.ts';
import { LogError } from '../log/log.ts';
import { dataTopic } from '../log/topics.ts';
import type { Attachment } from './attach.ts';
import { findTable, listTables, type SourceTable } from './catalog.ts';
import { tableRemedy } from './continuity.ts';
import type { LogAppender } from './log-appender.ts';
import type { RelationMessage } from './pgoutput/messages.ts';
import { addTablesSql } from './publication.ts';
import { isPublished, publicationBarrier, publishTable, unpublishTable } from './published-table.ts';
import { ReaderError } from './reader-error.ts';
import type { ReaderOptions } from './reader-options.ts';
import type { TableState } from './reader-state.ts';
import { sqlstateOf } from './server-error.ts';
import type { SnapshotRunner } from './snapshot.ts';
import { restartPlan } from './snapshot-plan.ts';
import { createRelationShapes } from './relation-shapes.ts';
import type { ShapeHistory } from './shapes.ts';
import { matchesGlobs } from './table-globs.ts';
import { leavesRowsBehind, type TablePrivacy } from './table-privacy.ts';
import {
  createTableRoute,
  isAltered,
  tableName,
  takesEvents,
  type StopReason,
  type TableRoute,
} from './table-route.ts';
import { nameClash } from './table-names.ts';
import { newTableState, refusalOf } from './table-selection.ts';

export interface TableRegistry {
  /** Creates the topics. */
  open(): Promise<void>;
  connect(appender: LogAppender, snapshots: SnapshotRunner): void;
  beginSnapshots(): void;
  routes(): readonly TableRoute[];
  find(schema: string, table: string): TableRoute | null;
  /** The route for a RELATION: at once if its shape is known, otherwise after a look at the catalog. Null = not ours. */
  resolve(relation: RelationMessage): TableRoute | null | Promise<TableRoute | null>;
  snapshotting(): readonly string[];
  /** Those that take no events: stopped, or let go. */
  standing(): readonly string[];
  /** The table takes no more events until it is read again; the others go on. */
  stop(route: TableRoute, reason: StopReason): void;
  /** Exact: what the source no longer has goes, too. */
  resnapshot(route: TableRoute, exact: boolean): void;
  /** Reads a stopped table again, published anew where the publication has lost it (a table that was swapped by rename). */
  repair(route: TableRoute, exact: boolean): Promise<void>;
  setPhase(route: TableRoute, phase: TableState['phase']): void;
  /** Takes a table that appeared later. */
  adopt(schema: string, table: string, all?: readonly SourceTable[] | null): Promise<TableRoute | null>;
  /** Takes a table because somebody asked for it. @throws ReaderError why it cannot be taken, with the SQL where there is one */
  add(schema: string, table: string): Promise<TableRoute>;
  /** The same, because of what was done at the source: told in the log. */
  letGo(route: TableRoute, why: string): Promise<void>;
  /** Lets go of a table: its events no longer go to the log. Gives the SQL for the owner where it stays published. */
  remove(route: TableRoute): Promise<string | null>;
  /** Takes up what the contracts say now of the values that are kept out of the log. */
  followContracts(): Promise<void>;
  /** The shape with what is replaced of it now. */
  readonly present: (shape: ShapeEncoder) => ShapeEncoder;
  readonly announced: ReadonlySet<string>;
  readonly reasons: ReadonlyMap<TableRoute, StopReason>;
}

export interface RegistryOptions {
  readonly options: ReaderOptions;
  readonly attachment: Attachment;
  readonly history: ShapeHistory;
  readonly encoderFor: (shape: TableShape) => ShapeEncoder;
  readonly privacy: TablePrivacy;
  readonly states: readonly TableState[];
  /** States that differ from what the log has. */
  readonly changed: ReadonlySet<TableState>;
}

/** States that a corrected contract or a given key ends. */
const PRIVACY_FAULTS: readonly string[] = ['CONTRACT_FAILED', 'PII_KEY_MISSING'];

const isWhole = (table: SourceTable): boolean => refusalOf(table) === null;

export function createTableRegistry(parts: RegistryOptions): TableRegistry {
  const { options, attachment, history, encoderFor, privacy } = parts;
  const byName = new Map<string, TableRoute>();
  const announced = new Set<string>(attachment.announced);
  /** Why each table was refused when that was last told. */
  const refused = new Map(
    attachment.selected.refused.map((each) => [tableName(each.schema, each.table), each.error.message]),
  );
  const reasons = new Map<TableRoute, StopReason>();
  let appender: LogAppender | null = null;
  let snapshots: SnapshotRunner | null = null;

  const followed = (): readonly TableRoute[] => [...byName.values()].filter(({ state }) => state.phase !== 'removed');
  const note = (route: TableRoute): void => appender?.noteTable(route.state);
  /** Shapes made before the appender was there. */
  const early: TableShape[] = [];
  const noteShape = (shape: TableShape): void => {
    if (appender === null) early.push(shape);
    else appender.noteShape(shape);
  };
  const openTopic = async (state: TableState): Promise<TableRoute> => {
    const topic = dataTopic(options.name, state.schema, state.table);
    await options.log.admin.ensureTopics({ [topic]: options.topic });
    const bounds = await options.log.reader.bounds(topic);
    return createTableRoute(options.name, state, Math.max(1, bounds.size));
  };

  const stop = (route: TableRoute, reason: StopReason): void => {
    snapshots?.cancel(route);
    route.state = { ...route.state, phase: 'stopped', stopped: { state: reason.state, detail: reason.detail } };
    reasons.set(route, reason);
    note(route);
    const table = tableName(route.schema, route.table);
    options.logger.error(
      { table, state: reason.state, remedy: reason.remedy },
      `table ${table} stopped: ${reason.detail}`,
    );
  };

  const add = async (schema: string, name: string): Promise<TableRoute> => {
    const label = tableName(schema, name);
    const begun = taking.get(label);
    if (begun !== undefined) return begun;
    const existing = byName.get(label);
    if (existing !== undefined && existing.state.phase !== 'removed') return existing;
    const table = await findTable(attachment.session, schema, name);
    if (table === null) throw new ReaderError('TABLE_NOT_FOUND', `the source has no table ${label}`);
    const refusal = refusalOf(table) ?? nameClash(table, followed(), options.logKind);
    if (refusal !== null) throw refusal;
    return take(table);
  };

  const remove = async (route: TableRoute): Promise<string | null> => {
    snapshots?.cancel(route);
    reasons.delete(route);
    route.state = { ...route.state, phase: 'removed', stopped: null, heaps: [] };
    note(route);
    return unpublishTable(attachment.session, options.publication, route);
  };

  const letGo = async (route: TableRoute, why: string): Promise<void> => {
    const sql = await remove(route);
    const table = tableName(route.schema, route.table);
    const owner = sql === null ? {} : { remedy: `as its owner: ${sql}` };
    options.logger.warn({ table, ...owner }, `table ${table} is let go: it ${why}`);
  };

  const adopt = async (
    schema: string,
    name: string,
    given: readonly SourceTable[] | null = null,
  ): Promise<TableRoute | null> => {
    const label = tableName(schema, name);
    const existing = byName.get(label);
    if (existing !== undefined && existing.state.phase !== 'removed') return existing;
    const all = given ?? (await listTables(attachment.session));
    const table = all.find((each) => each.schema === schema && each.table === name);
    // Beside those that are followed stand those that are wanted as much: of two alike neither is taken, as at a start.
    const wanted = all.filter((each) => matchesGlobs(options.tables, each.schema, each.table) && isWhole(each));
    const refusal =
      table === undefined ? null : (refusalOf(table) ?? nameClash(table, [...followed(), ...wanted], options.logKind));
    if (table === undefined || refusal !== null) {
      // Looked at every few seconds: told once for each reason.
      if (refusal !== null && refused.get(label) !== refusal.message)
        options.logger.error({ table: label, code: refusal.code, remedy: refusal.remedy }, refusal.message);
      if (refusal !== null) refused.set(label, refusal.message);
      return null;
    }
    if (options.newTables !== 'backfill') {
      if (options.newTables === 'announce' && !announced.has(label)) {
        announced.add(label);
        options.logger.warn(
          { table: label },
          `table ${label} is new and is not followed: add it to the publication (or set source.newTables: backfill) and start again`,
        );
      }
      return null;
    }
    if (announced.has(label) && !(await isPublished(attachment.session, options.publication, { schema, table: name })))
      return null;
    try {
      return await take(table);
    } catch (error) {
      if (error instanceof LogError && error.code === 'LOG_TOPIC_REFUSED') {
        // Kafka without a broker of the replicas that it is to have, or a name that it does not take: the others go on.
        if (refused.get(label) !== error.message)
          options.logger.error({ table: label, code: error.code }, error.message);
        refused.set(label, error.message);
        return null;
      }
      if (!(error instanceof ReaderError) || error.code !== 'PUBLICATION_MISSING_TABLE') throw error;
      announced.add(label);
      options.logger.warn({ table: label, remedy: error.remedy }, `table ${label} is new: ${error.message}`);
      return null;
    }
  };

  /** A heartbeat, a RELATION and a command may ask for the same table at once: two routes of it would not know of each other. */
  const taking = new Map<string, Promise<TableRoute>>();
  const take = async (table: SourceTable): Promise<TableRoute> => {
    const label = tableName(table.schema, table.table);
    const before = byName.get(label);
    let taken = taking.get(label);
    if (taken === undefined) {
      if (before !== undefined && before.state.phase !== 'removed') return before;
      taken = takeUp(table, before).finally(() => taking.delete(label));
      taking.set(label, taken);
    }
    return taken;
  };
  const takeUp = async (table: SourceTable, before: TableRoute | undefined): Promise<TableRoute> => {
    const { schema, table: name } = table;
    const label = tableName(schema, name);
    // Registered before it is published: its first RELATION must find it.
    const fresh = newTableState(table, options.clock(), null);
    const snapshot = (before?.state.snapshot ?? 0) + 1;
    // One that was let go and comes back: what the source lost meanwhile must go from the lake, too.
    const route = await openTopic(before === undefined ? fresh : { ...fresh, snapshot, clearFirst: true });
    byName.set(label, route);
    const fault = await privacy.load(schema, name);
    if (fault !== null) {
      stop(route, fault);
      return route;
    }
    try {
      await publishTable(attachment.session, options.publication, { schema, table: name });
    } catch (error) {
      if (before === undefined) byName.delete(label);
      else byName.set(label, before);
      if (!(error instanceof ReaderError) || sqlstateOf(error) === null || error.retriable) throw error;
      throw new ReaderError('PUBLICATION_MISSING_TABLE', `${label} cannot be published: ${error.message}`, {
        cause: error,
        remedy: `as its owner: ${addTablesSql(options.publication, [{ schema, table: name }])};`,
      });
    }
    route.state = { ...route.state, waitForXid: await publicationBarrier(attachment.session) };
    announced.delete(label);
    note(route);
    snapshots?.begin(route);
    return route;
  };

  const resnapshot = (route: TableRoute, exact: boolean): void => {
    restartPlan(route, options.clock(), exact);
    reasons.delete(route);
    note(route);
    snapshots?.begin(route);
  };

  const present = (encoder: ShapeEncoder): ShapeEncoder => {
    const { shape, isNew } = privacy.present(encoder.shape);
    if (isNew) noteShape(shape);
    return shape === encoder.shape ? encoder : encoderFor(shape);
  };
  /** A changed privacy action is another shape from here on; rows that no event could meet any more are read again. */
  const followContract = async (route: TableRoute): Promise<void> => {
    const held = PRIVACY_FAULTS.includes(route.state.stopped?.state ?? '');
    if (!takesEvents(route.state) && !held) return;
    const fault = await privacy.load(route.schema, route.table);
    if (fault !== null) {
      if (!held) stop(route, fault);
      return;
    }
    if (held) {
      readAgain(route);
      return;
    }
    const before = route.encoder?.shape ?? history.latest(route.schema, route.table);
    if (before === null) return;
    const { shape, isNew } = privacy.present(before);
    if (shape === before) return;
    if (isNew) noteShape(shape);
    if (route.encoder !== null) {
      route.encoder = encoderFor(shape);
      route.shapeChanges++;
    }
    const table = tableName(route.schema, route.table);
    const columns = shape.columns.flatMap(({ name, replaced }) => (replaced === undefined ? [] : [name]));
    options.logger.info({ table, columns }, `what is kept out of the log of ${table} has changed`);
    if (!leavesRowsBehind(before, shape)) return;
    options.logger.warn({ table }, `values of ${table} have other pseudonyms now: it is read again`);
    readAgain(route);
  };
  /** Before the log is there, the state alone: the snapshot begins with the others. */
  const readAgain = (route: TableRoute): void => {
    if (appender === null) restartPlan(route, options.clock(), true);
    else resnapshot(route, true);
  };

  const relations = createRelationShapes({
    session: attachment.session,
    tables: options.tables,
    history,
    encoderFor,
    privacy,
    find: (schema, table) => byName.get(tableName(schema, table)) ?? null,
    adopt,
    noteShape,
    stop,
    resnapshot,
  });

  return {
    announced,
    reasons,
    adopt,
    add,
    remove,
    letGo,
    stop,
    async open() {
      for (const state of parts.states) {
        const route = await openTopic(state);
        byName.set(tableName(state.schema, state.table), route);
        if (state.stopped !== null)
          reasons.set(route, {
            ...state.stopped,
            remedy: tableRemedy(state.stopped.state, tableName(state.schema, state.table)),
          });
        await followContract(route);
      }
    },
    connect(to, runner) {
      appender = to;
      snapshots = runner;
      for (const shape of early.splice(0)) to.noteShape(shape);
      for (const route of byName.values())
        if (parts.changed.has(route.state) || !parts.states.includes(route.state)) note(route);
    },
    beginSnapshots() {
      for (const route of byName.values()) if (route.state.phase === 'snapshotting') snapshots?.begin(route);
    },
    routes: () => [...byName.values()],
    find: (schema, table) => byName.get(tableName(schema, table)) ?? null,
    resolve: (relation) => relations.resolve(relation),
    present,
    async followContracts() {
      for (const route of byName.values()) await followContract(route);
    },
    snapshotting: () =>
      [...byName.values()]
        .filter((route) => route.state.phase === 'snapshotting' || isAltered(route))
        .map((route) => tableName(route.schema, route.table)),
    standing: () =>
      [...byName.values()]
        .filter(({ state }) => !takesEvents(state))
        .map(({ schema, table }) => tableName(schema, table)),
    resnapshot,
    async repair(route, exact) {
      const { schema, table } = route;
      const name = tableName(schema, table);
      if ((await findTable(attachment.session, schema, table)) === null)
        throw new ReaderError('TABLE_NOT_FOUND', `the source has no table ${name}: there is nothing to read`, {
          remedy: tableRemedy('TABLE_MISSING', name),
        });
      // It may be what was lost.
      await options.log.admin.ensureTopics({ [route.topic]: options.topic });
      route.partitions = Math.max(1, (await options.log.reader.bounds(route.topic)).size);
      const fault = await privacy.load(route.schema, route.table);
      if (fault !== null) throw new ReaderError(fault.state, fault.detail, { remedy: fault.remedy });
      // What a transaction wrote before the table was published (anew), perhaps by somebody else, never comes.
      const anew = await publishTable(attachment.session, options.publication, route);
      if (anew || route.state.stopped !== null)
        route.state = { ...route.state, waitForXid: await publicationBarrier(attachment.session) };
      resnapshot(route, exact);
    },
    setPhase(route, phase) {
      route.state = { ...route.state, phase };
      note(route);
    },
  };
}
