/**
 * The shape that each RELATION message names: at once where it is known, otherwise after a look at the catalog; and what
 * a table's new shape means for it (another table under its name, another key, columns gone from a table without key).
 */
import type { ShapeEncoder } from '../log/envelope-encode.ts';
import type { TableShape } from '../log/event.ts';
import { findTable } from './catalog.ts';
import type { RelationMessage } from './pgoutput/messages.ts';
import { bareFromRelation, currentKey, describeColumns, keyOf, type ShapeHistory } from './shapes.ts';
import type { SourceSession } from './source.ts';
import { matchesGlobs } from './table-globs.ts';
import type { TablePrivacy } from './table-privacy.ts';
import { beginsAnew, tableName, takesEvents, type StopReason, type TableRoute } from './table-route.ts';

export interface RelationShapes {
  /** The route for a RELATION, with the shape that it names in force. Null = not ours. */
  resolve(relation: RelationMessage): TableRoute | null | Promise<TableRoute | null>;
}

export interface RelationShapesOptions {
  readonly session: SourceSession;
  /** Globs of the tables that are wanted. */
  readonly tables: readonly string[];
  readonly history: ShapeHistory;
  readonly encoderFor: (shape: TableShape) => ShapeEncoder;
  readonly privacy: TablePrivacy;
  readonly find: (schema: string, table: string) => TableRoute | null;
  /** Takes a table that appeared later; null = it is not followed. */
  readonly adopt: (schema: string, table: string) => Promise<TableRoute | null>;
  readonly noteShape: (shape: TableShape) => void;
  readonly stop: (route: TableRoute, reason: StopReason) => void;
  readonly resnapshot: (route: TableRoute, exact: boolean) => void;
}

const REPAIR = (route: TableRoute): string => `sluice repair ${route.schema}.${route.table}`;

/** A table without key has lost or renamed a column. */
function losesColumns(before: TableShape, now: TableShape): boolean {
  if (keyOf(now).length > 0) return false;
  return before.columns.some(({ name }) => !now.columns.some((column) => column.name === name));
}

/** A table that was stopped for it and read again has its new key, though no event with it has come yet. */
const isOtherKey = (key: readonly string[] | null, shape: TableShape): boolean =>
  key === null || key.join('\0') !== keyOf(shape).join('\0');

export function createRelationShapes(options: RelationShapesOptions): RelationShapes {
  const { session, history, encoderFor, privacy, noteShape, stop, resnapshot } = options;
  const keys = new Map<string, readonly string[] | null>();

  /** Null = look at the catalog first. */
  const resolveKnown = (relation: RelationMessage, route: TableRoute): TableRoute | null => {
    const key = keys.get(tableName(relation.schema, relation.table));
    if (key === undefined || relation.oid !== route.state.oid) return null;
    const shape = history.known(privacy.mark(bareFromRelation(relation, key)));
    if (shape === null) return null;
    useShape(route, shape);
    return route;
  };
  const useShape = (route: TableRoute, shape: TableShape): void => {
    const before = route.encoder?.shape ?? history.latest(route.schema, route.table);
    if (route.encoder?.shape.version !== shape.version) {
      // A shape that comes back is the one in force again: the log says so once more.
      if (history.use(shape) && before !== null && shape.version < before.version) noteShape(shape);
      route.encoder = encoderFor(shape);
      route.shapeChanges++;
    }
    if (!takesEvents(route.state) || before === null) return;
    if (shape.version !== before.version) route.alterations++;
    if (beginsAnew(route.state)) return;
    if (shape.oid !== route.state.oid) {
      const detail = `table ${route.schema}.${route.table} had OID ${route.state.oid} and is now another table, OID ${shape.oid}`;
      stop(route, { state: 'TABLE_REPLACED', detail, remedy: REPAIR(route) });
    } else if (shape.version > before.version && isOtherKey(keyOf(before), shape) && isOtherKey(route.keyRead, shape)) {
      const detail = `the key of ${route.schema}.${route.table} was (${keyOf(before).join(', ')}) and is now (${keyOf(shape).join(', ')})`;
      stop(route, { state: 'KEY_CHANGED', detail, remedy: REPAIR(route) });
    } else if (shape.version > before.version && losesColumns(before, shape)) {
      // Rows without key are known by their columns: those that stand in the lake could not be found any more.
      resnapshot(route, true);
    }
  };
  const resolveUnknown = async (relation: RelationMessage): Promise<TableRoute | null> => {
    const { schema, table } = relation;
    let route = options.find(schema, table);
    if (route === null) {
      if (!matchesGlobs(options.tables, schema, table)) return null;
      route = await options.adopt(schema, table);
      if (route === null) return null;
    }
    if (relation.oid !== route.state.oid) {
      const now = await findTable(session, schema, table);
      // Rows of a table that was there before this one took its name.
      if (now?.oid !== relation.oid) return null;
    }
    const key = await currentKey(session, schema, table);
    keys.set(tableName(schema, table), key);
    const bare = privacy.mark(bareFromRelation(relation, key));
    let shape = history.known(bare);
    if (shape === null) {
      shape = history.add(bare, await describeColumns(session, bare));
      noteShape(shape);
    }
    useShape(route, shape);
    return route;
  };

  return {
    resolve(relation) {
      const route = options.find(relation.schema, relation.table);
      return (route === null ? null : resolveKnown(relation, route)) ?? resolveUnknown(relation);
    },
  };
}
