/**
 * Table shapes: what a RELATION (or, for a table without traffic, the catalog) says about the columns, with a version that
 * every record names. A shape once given never changes; the history is in `<name>.__reader`, so that old WAL and old records
 * are read with the columns of their time.
 */
import type { ColumnShape, Replaced, TableShape } from '../log/event.ts';
import { describeTypes, findTable, listAttributes, type SourceTable } from './catalog.ts';
import type { RelationMessage } from './pgoutput/messages.ts';
import type { PublishedTable } from './publication.ts';
import { ReaderError } from './reader-error.ts';
import type { SourceSession } from './source.ts';
import { tableKey } from './table-key.ts';

export interface BareColumn {
  readonly name: string;
  readonly typeOid: number;
  readonly typeModifier: number;
  /** What stands in the log for the values (table-privacy.ts); absent = the values themselves. */
  readonly replaced?: Replaced;
}

export interface BareShape {
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  readonly columns: readonly BareColumn[];
  /** Key columns in key order. */
  readonly key: readonly string[];
}

export interface ShapeHistory {
  /** The shape of exactly these columns, if it was ever seen. */
  known(bare: BareShape): TableShape | null;
  /** Gives the shape the next version. `facts` in column order. */
  add(bare: BareShape, columns: readonly ColumnShape[]): TableShape;
  byVersion(version: number): TableShape | null;
  /** A shape that a table had before is the one in force again. True = another one was until now. */
  use(shape: TableShape): boolean;
  /** The one in force: the last that was added or used. */
  latest(schema: string, table: string): TableShape | null;
}

/** `saved` in the order in which they were noted: the last one of a table is in force. */
export function createShapeHistory(saved: readonly TableShape[] = []): ShapeHistory {
  const byFingerprint = new Map<string, TableShape>();
  const byVersion = new Map<number, TableShape>();
  const latest = new Map<string, TableShape>();
  let last = 0;
  const remember = (shape: TableShape): void => {
    byFingerprint.set(fingerprint(shape, keyOf(shape)), shape);
    byVersion.set(shape.version, shape);
    latest.set(`${shape.schema}\0${shape.table}`, shape);
    last = Math.max(last, shape.version);
  };
  for (const shape of saved) remember(shape);
  return {
    known: (bare) => byFingerprint.get(fingerprint(bare, bare.key)) ?? null,
    add(bare, columns) {
      const { schema, table, oid } = bare;
      const shape: TableShape = { schema, table, oid, version: last + 1, columns };
      remember(shape);
      return shape;
    },
    byVersion: (version) => byVersion.get(version) ?? null,
    use(shape) {
      const name = `${shape.schema}\0${shape.table}`;
      if (latest.get(name)?.version === shape.version) return false;
      latest.set(name, shape);
      return true;
    },
    latest: (schema, table) => latest.get(`${schema}\0${table}`) ?? null,
  };
}

function fingerprint(shape: Omit<BareShape, 'key'>, key: readonly string[]): string {
  const columns = shape.columns.map(({ name, typeOid, typeModifier, replaced }) =>
    replaced === undefined ? [name, typeOid, typeModifier] : [name, typeOid, typeModifier, replaced],
  );
  return JSON.stringify([shape.schema, shape.table, shape.oid, columns, key]);
}

export function keyOf(shape: TableShape): readonly string[] {
  return shape.columns
    .filter((column) => column.keyPosition > 0)
    .sort((a, b) => a.keyPosition - b.keyPosition)
    .map((column) => column.name);
}

/** The shape that a RELATION describes. `catalogKey` is the table's key as the catalog has it now, or null if it is gone. */
export function bareFromRelation(relation: RelationMessage, catalogKey: readonly string[] | null): BareShape {
  const { schema, table, oid } = relation;
  const columns = relation.columns.map(({ name, typeOid, typeModifier }) => ({ name, typeOid, typeModifier }));
  return { schema, table, oid, columns, key: relationKey(relation, catalogKey) };
}

function relationKey(relation: RelationMessage, catalogKey: readonly string[] | null): readonly string[] {
  const names = new Set(relation.columns.map((column) => column.name));
  const flagged = relation.columns.filter((column) => column.inKey).map((column) => column.name);
  const usable = catalogKey !== null && catalogKey.every((name) => names.has(name)) ? catalogKey : null;
  // With replica identity full every column is flagged, and only the catalog knows the key.
  if (relation.replicaIdentity === 'f') {
    if (usable !== null) return usable;
    throw new ReaderError(
      'TABLE_NO_KEY',
      `table ${relation.schema}.${relation.table} has replica identity full, and its key is not among the published columns`,
    );
  }
  // The catalog gives the order of the index's columns; the RELATION, the set in force at that LSN.
  return usable !== null && usable.length === flagged.length && flagged.every((name) => usable.includes(name))
    ? usable
    : flagged;
}

/** The columns that pgoutput would send for a table, from the catalog. */
export async function bareFromCatalog(
  session: SourceSession,
  table: SourceTable,
  published: PublishedTable,
  storedGenerated: boolean,
): Promise<BareShape> {
  const attributes = await listAttributes(session, table.oid);
  const columns = attributes
    .filter((attribute) =>
      published.columns === null
        ? attribute.generated === '' || (attribute.generated === 's' && storedGenerated)
        : published.columns.includes(attribute.name),
    )
    .map(({ name, typeOid, typeModifier }) => ({ name, typeOid, typeModifier }));
  return { schema: table.schema, table: table.table, oid: table.oid, columns, key: tableKey(table) };
}

/** Looks up what the columns' types are; the catalog as it is now, since OIDs of types are not reused in practice. */
export async function describeColumns(session: SourceSession, bare: BareShape): Promise<readonly ColumnShape[]> {
  const facts = await describeTypes(session, bare.columns);
  const attributes = await listAttributes(session, bare.oid);
  const notNull = new Set(attributes.filter((attribute) => attribute.notNull).map((attribute) => attribute.name));
  return bare.columns.map((column, index) => ({
    ...column,
    pgType: facts[index]?.pgType ?? `unknown type ${column.typeOid}`,
    baseType: facts[index]?.baseType ?? null,
    kind: facts[index]?.kind ?? 'base',
    enumLabels: facts[index]?.enumLabels ?? null,
    notNull: notNull.has(column.name),
    keyPosition: bare.key.indexOf(column.name) + 1,
  }));
}

/** The key as the catalog has it now; null if the table is gone or has none any more. */
export async function currentKey(
  session: SourceSession,
  schema: string,
  table: string,
): Promise<readonly string[] | null> {
  const found = await findTable(session, schema, table);
  if (found === null) return null;
  try {
    return tableKey(found);
  } catch {
    return null;
  }
}
