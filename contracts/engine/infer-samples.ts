/**
 * Decoded rows of a topic → catalog table for `inferContract`. What a sample shows is the narrowest type that holds all of
 * its values; what it cannot show (length, key, NOT NULL for ever) is left to a person. Order of rows and batches does not matter.
 */
import type { CatalogColumn, CatalogTable } from './catalog.ts';
import type { Cell, GateRow } from './gate.ts';
import { classifyTemporal } from './rules/temporal.ts';
import { formatTest } from './rules/value-formats.ts';

export interface SampleOptions {
  readonly schema: string;
  readonly table: string;
  /** Key columns in order, from the records' keys. */
  readonly keys: readonly string[];
}

export interface SampleColumn {
  readonly name: string;
  /** Of the rows that carried the column. */
  readonly rows: number;
  readonly nulls: number;
  /** Distinct values, or null above 50: what could be a closed list. */
  readonly distinct: readonly string[] | null;
}

export interface SampleResult {
  readonly table: CatalogTable;
  readonly columns: readonly SampleColumn[];
}

const DISTINCT_MAX = 50;

interface Tally {
  rows: number;
  nulls: number;
  readonly types: Set<string>;
  readonly elements: Set<string>;
  readonly distinct: Set<string>;
}

export function readSamples(rows: Iterable<GateRow>, options: SampleOptions): SampleResult {
  const tallies = new Map<string, Tally>();
  let count = 0;
  for (const row of rows) {
    count++;
    for (const [name, cell] of Object.entries(row)) if (cell !== undefined) record(tallyOf(tallies, name), cell);
  }
  const names = [...tallies.keys()];
  const columns = names.map((name): CatalogColumn => {
    const tally = tallyOf(tallies, name);
    const keyPosition = options.keys.indexOf(name) + 1;
    const type = tally.types.size === 1 && tally.types.has('array') ? null : widest(tally.types);
    const element = type === null ? widest(tally.elements) : null;
    return {
      name,
      pgType: type ?? `${element ?? 'text'}[]`,
      baseType: element,
      kind: type === null ? 'array' : 'base',
      enumLabels: null,
      notNull: keyPosition > 0 || (count > 0 && tally.nulls === 0 && tally.rows === count),
      keyPosition,
    };
  });
  return {
    table: { schema: options.schema, table: options.table, columns },
    columns: names.map((name) => {
      const tally = tallyOf(tallies, name);
      return {
        name,
        rows: tally.rows,
        nulls: tally.nulls,
        distinct: tally.distinct.size > DISTINCT_MAX ? null : [...tally.distinct].toSorted(),
      };
    }),
  };
}

function tallyOf(tallies: Map<string, Tally>, name: string): Tally {
  let tally = tallies.get(name);
  if (tally === undefined) {
    tally = { rows: 0, nulls: 0, types: new Set(), elements: new Set(), distinct: new Set() };
    tallies.set(name, tally);
  }
  return tally;
}

function record(tally: Tally, cell: Cell): void {
  tally.rows++;
  if (cell === null) {
    tally.nulls++;
    return;
  }
  tally.types.add(typeOf(cell));
  if (Array.isArray(cell))
    for (const item of cell as readonly Cell[]) if (item !== null) tally.elements.add(typeOf(item));
  if (typeof cell !== 'object' && tally.distinct.size <= DISTINCT_MAX) tally.distinct.add(String(cell));
}

const isUuid = formatTest('uuid');

function typeOf(cell: NonNullable<Cell>): string {
  if (typeof cell === 'boolean') return 'boolean';
  if (typeof cell === 'bigint') return 'bigint';
  if (typeof cell === 'number')
    return Number.isInteger(cell)
      ? Math.abs(cell) < 2 ** 31
        ? 'integer'
        : Number.isSafeInteger(cell)
          ? 'bigint'
          : 'double precision'
      : 'double precision';
  if (Array.isArray(cell)) return 'array';
  if (typeof cell !== 'string') return 'jsonb';
  if (isUuid?.(cell) === true) return 'uuid';
  if (classifyTemporal(cell, 'timestamptz') === 'plain') return 'timestamp with time zone';
  if (classifyTemporal(cell, 'timestamp') === 'plain') return 'timestamp without time zone';
  if (classifyTemporal(cell, 'date') === 'plain') return 'date';
  // Exact decimals are text on the wire, and so is much else: digits with a point are taken for numeric, digits alone are not.
  return /^-?\d+\.\d+$/.test(cell) ? 'numeric' : 'text';
}

/** The one type that holds all of these; text when there is none but text. */
function widest(types: ReadonlySet<string>): string {
  const [only] = types;
  if (only === undefined) return 'text';
  if (types.size === 1) return only;
  const numbers = ['integer', 'bigint', 'double precision'];
  if ([...types].every((type) => numbers.includes(type)))
    return types.has('double precision') ? 'double precision' : 'bigint';
  return 'text';
}
