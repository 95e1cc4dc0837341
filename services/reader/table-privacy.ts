/**
 * Which columns' values are replaced before they come into the log (`piiStage: before-log`), as the contracts say now. What
 * is replaced is part of a table's shape, so that every record names it, and a change of it is a new shape.
 * Where a contract has vanished or cannot be read, what was replaced last is replaced on: clear text never passes by accident.
 */
import type { Hasher } from '../../contracts/engine/privacy.ts';
import type { PiiAction } from '../../contracts/engine/model.ts';
import { cellReplacer } from '../log/cell-privacy.ts';
import type { ReplacerOf } from '../log/envelope-encode.ts';
import type { ColumnShape, Replaced, TableShape } from '../log/event.ts';
import type { ReaderLog } from './reader-options.ts';
import type { BareShape, ShapeHistory } from './shapes.ts';

/** Column → action before the log. `none`: no contract. `unreadable`: one that cannot be used, and why. */
export type AskedPrivacy =
  | { readonly kind: 'asked'; readonly actions: ReadonlyMap<string, PiiAction> }
  | { readonly kind: 'none' }
  | { readonly kind: 'unreadable'; readonly detail: string };

/** PORT: what the contracts ask for. */
export interface LogPrivacy {
  ask(schema: string, table: string): Promise<AskedPrivacy>;
  /** Null = no key is configured. */
  readonly hasher: Hasher | null;
  /** Names the key without telling it; null without one. */
  readonly keyId: string | null;
}

export interface PrivacyFault {
  readonly state: 'CONTRACT_FAILED' | 'PII_KEY_MISSING';
  readonly detail: string;
  readonly remedy: string;
}

export interface TablePrivacy {
  /** Looks at the table's contract. A fault: not one event of the table may be written. */
  load(schema: string, table: string): Promise<PrivacyFault | null>;
  /** The shape with what is replaced of it now. */
  readonly mark: (bare: BareShape) => BareShape;
  /** The same columns, with what is replaced of them now; the shape itself while that is the same. */
  present(shape: TableShape): { readonly shape: TableShape; readonly isNew: boolean };
  readonly replacerOf: ReplacerOf;
}

export function createTablePrivacy(port: LogPrivacy | null, history: ShapeHistory, logger: ReaderLog): TablePrivacy {
  const tables = new Map<string, ReadonlyMap<string, Replaced>>();
  const warned = new Set<string>();
  const hasher = port?.hasher ?? null;
  const name = (schema: string, table: string): string => `${schema}.${table}`;
  const replacedBy = (action: PiiAction): Replaced => (action === 'hash' ? `hash:${port?.keyId ?? ''}` : action);
  const of = (shape: { readonly schema: string; readonly table: string }): ReadonlyMap<string, Replaced> =>
    tables.get(name(shape.schema, shape.table)) ?? NOTHING;

  /** What the newest shape says was replaced, with the key of now. */
  const before = (schema: string, table: string): ReadonlyMap<string, Replaced> => {
    const known = new Map<string, Replaced>();
    for (const column of history.latest(schema, table)?.columns ?? [])
      if (column.replaced !== undefined)
        known.set(column.name, column.replaced.startsWith('hash:') ? replacedBy('hash') : column.replaced);
    return known;
  };
  const asked = async (schema: string, table: string): Promise<ReadonlyMap<string, Replaced> | PrivacyFault> => {
    const label = name(schema, table);
    const found = port === null ? ({ kind: 'none' } as const) : await port.ask(schema, table);
    if (found.kind === 'asked') {
      warned.delete(label);
      return new Map([...found.actions].map(([column, action]) => [column, replacedBy(action)]));
    }
    const held = tables.get(label) ?? before(schema, table);
    if (found.kind === 'unreadable' && held.size === 0 && history.latest(schema, table) === null)
      return {
        state: 'CONTRACT_FAILED',
        detail: `the contract of ${label} cannot be used, so what it keeps out of the log is not known: ${found.detail}`,
        remedy: `correct it (\`contracts check\` shows every finding), then \`sluice repair ${label}\``,
      };
    if (held.size > 0 && !warned.has(label)) {
      warned.add(label);
      const why = found.kind === 'none' ? 'is gone' : `cannot be used (${found.detail})`;
      logger.warn(
        { table: label, columns: [...held.keys()] },
        `the contract of ${label} ${why}: what it kept out of the log is kept out on`,
      );
    }
    return held;
  };

  return {
    async load(schema, table) {
      const found = await asked(schema, table);
      if (!(found instanceof Map)) return found as PrivacyFault;
      tables.set(name(schema, table), found);
      const hashed = [...found].find(([, replaced]) => replaced.startsWith('hash:'))?.[0];
      if (hashed === undefined || hasher !== null) return null;
      return {
        state: 'PII_KEY_MISSING',
        detail: `column ${hashed} of ${name(schema, table)} must be hashed before the log, but no key is configured`,
        remedy: `set privacy.key (or take \`hash\` out of the contract), then \`sluice repair ${name(schema, table)}\``,
      };
    },
    mark(bare) {
      const replaced = of(bare);
      return replaced.size === 0 ? bare : { ...bare, columns: bare.columns.map((column) => marked(column, replaced)) };
    },
    present(shape) {
      const replaced = of(shape);
      if (shape.columns.every((column) => column.replaced === replaced.get(column.name)))
        return { shape, isNew: false };
      const columns = shape.columns.map((column) => marked(column, replaced));
      const key = columns.filter((column) => column.keyPosition > 0).toSorted((a, b) => a.keyPosition - b.keyPosition);
      const bare = { ...shape, columns, key: key.map((column) => column.name) };
      const known = history.known(bare);
      return known === null ? { shape: history.add(bare, columns), isNew: true } : { shape: known, isNew: false };
    },
    replacerOf: (column) => cellReplacer(column, hasher),
  };
}

const NOTHING: ReadonlyMap<string, Replaced> = new Map();

function marked<C extends Pick<ColumnShape, 'name' | 'replaced'>>(
  column: C,
  replaced: ReadonlyMap<string, Replaced>,
): C {
  const { replaced: _before, ...bare } = column;
  const now = replaced.get(column.name);
  return (now === undefined ? bare : { ...bare, replaced: now }) as C;
}

/**
 * True when rows that stand in the lake can no longer be met by events: a key column's values are other ones now, or a key
 * was exchanged, so that equal values have two pseudonyms.
 */
export function leavesRowsBehind(before: TableShape, now: TableShape): boolean {
  return now.columns.some((column) => {
    const old = before.columns.find(({ name }) => name === column.name);
    if (old === undefined || old.replaced === column.replaced) return false;
    const otherKey = old.replaced?.startsWith('hash:') === true && column.replaced?.startsWith('hash:') === true;
    return otherKey || column.keyPosition > 0;
  });
}
