/** Which columns identify a row, and why a table cannot be taken. Pure. */
import { ReaderError } from './reader-error.ts';
import type { SourceTable } from './catalog.ts';
import { quoteTable } from './sql-text.ts';
import { leaveOut } from './table-globs.ts';

/**
 * The key in key order. Every update and delete must carry it, so it follows from the replica identity:
 * default → the primary key; index → that index (which must be the primary key, if there is one); full → the primary key or
 * else a unique index without NULLs, or else nothing: equal rows are then a bag.
 * @throws ReaderError TABLE_NO_KEY, TABLE_KEY_MISMATCH
 */
export function tableKey(table: SourceTable): readonly string[] {
  const name = quoteTable(table.schema, table.table);
  switch (table.replicaIdentity) {
    case 'd':
      if (table.primaryKey.length > 0) return table.primaryKey;
      break;
    case 'i':
      if (table.identityIndex.length === 0) break; // the index was dropped since
      if (table.primaryKey.length === 0 || sameColumns(table.primaryKey, table.identityIndex))
        return table.identityIndex;
      throw new ReaderError(
        'TABLE_KEY_MISMATCH',
        `table ${name} has replica identity (${table.identityIndex.join(', ')}) and primary key (${table.primaryKey.join(', ')}): its deletes would not carry the primary key`,
        { remedy: `ALTER TABLE ${name} REPLICA IDENTITY DEFAULT;` },
      );
    case 'f':
      if (table.primaryKey.length > 0) return table.primaryKey;
      // Empty: a bag, whose rows are known by all that they hold (bag-rows.ts).
      return table.uniqueIndex;
    case 'n':
      break;
  }
  throw new ReaderError('TABLE_NO_KEY', `table ${name} ${whyNoKey(table)}`, {
    remedy:
      table.primaryKey.length > 0
        ? `ALTER TABLE ${name} REPLICA IDENTITY DEFAULT;`
        : `ALTER TABLE ${name} ${table.deferrableKey ? 'DROP CONSTRAINT <its primary key>, ' : ''}ADD PRIMARY KEY (…); or ALTER TABLE ${name} REPLICA IDENTITY USING INDEX <a unique index of NOT NULL columns>; or REPLICA IDENTITY FULL, which takes it as a bag of rows; or leave it out: ${leaveOut(table)}`,
  });
}

function whyNoKey({ replicaIdentity, deferrableKey }: SourceTable): string {
  if (replicaIdentity === 'n') return 'has replica identity nothing: its updates and deletes carry no key';
  if (deferrableKey)
    return 'has a deferrable primary key, which PostgreSQL takes for no replica identity: once published, its updates would be refused';
  return 'has no primary key and no replica identity index: its updates and deletes carry no key';
}

function sameColumns(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name) => b.includes(name));
}

/** @throws ReaderError with the fix, if the table cannot be replicated whole */
export function requireReplicable(table: SourceTable): void {
  const name = quoteTable(table.schema, table.table);
  if (table.persistence === 'u') {
    throw new ReaderError('TABLE_UNLOGGED', `table ${name} is unlogged: its changes are not in the WAL`, {
      remedy: `ALTER TABLE ${name} SET LOGGED; or leave it out: ${leaveOut(table)}`,
    });
  }
  if (table.rowSecurity) {
    throw new ReaderError('TABLE_ROW_SECURITY', `row-level security of table ${name} would hide rows from this role`, {
      remedy: `as a superuser: ALTER ROLE <role> BYPASSRLS; or add a policy that shows all rows; or leave it out: ${leaveOut(table)}`,
    });
  }
  tableKey(table);
}
