/**
 * The gate's language. A gate is compiled once per contract version (`compile.ts`) and applied to one reused row object a
 * table, so that nothing is allocated for a good row.
 */

/**
 * A cell as it stands on the wire after decoding (type-table.ts says which form each PostgreSQL type has):
 * integers are numbers while safe and bigint beyond; numeric, dates, times and every other type are PostgreSQL's exact
 * text; bytea is base64 text; arrays are arrays of cells. NULL is null. An unchanged TOAST column is *absent* (undefined).
 */
export type Cell = null | boolean | number | bigint | string | readonly Cell[] | { readonly [key: string]: Cell };
/** One property a column. Undefined = the event did not carry it. Unknown columns are properties, too. */
export type GateRow = { [column: string]: Cell | undefined };

/** Which of the validators applies: all columns / unchanged ones may be absent / key columns only. */
export type GateOp = 'insert' | 'snapshot' | 'update' | 'delete';

export type Action = 'warn' | 'quarantine' | 'drop' | 'fail';

export interface Violation {
  /** Id of the rule in the contract, or a built-in one: `type:<column>`, `required:<column>`, `enum:<column>`, … */
  readonly ruleId: string;
  readonly code: ViolationCode;
  /** Null for row rules. */
  readonly column: string | null;
  readonly action: Action;
  /** What was expected; holds no row data. */
  readonly message: string;
  /** The offending value as text, masked when the column is classified or carries a pii action; null when there is none. */
  readonly value: string | null;
}

export type ViolationCode =
  | 'TYPE'
  | 'UNREPRESENTABLE'
  | 'REQUIRED'
  | 'ENUM'
  | 'LENGTH'
  | 'PATTERN'
  | 'BOUND'
  | 'FORMAT'
  | 'ARRAY_SHAPE'
  | 'UNKNOWN_COLUMN'
  | 'RULE'
  | 'RULE_ERROR'
  | 'KEY_NULL'
  | 'DECODE';

export interface Gate {
  readonly contractId: string;
  readonly contractVersion: string;
  /** SHA-256 of the contract's text, hex: the batch's record of what it was checked with. */
  readonly contractHash: string;
  /**
   * Null when the row is clean. All violations, in order of evaluation; the first non-warn action wins.
   * The row is read in place. It is written in one case: a value that the lake's type cannot hold, under
   * `onUnrepresentable: null`, is replaced by null. An insert that carries unchanged TOAST columns is checked as `update`.
   */
  check(op: GateOp, row: GateRow): readonly Violation[] | null;
  /** The same question for callers that hold complete rows as columns; only of rows that pass all of it. */
  readonly columnwise: ColumnwiseGate;
  /** Rules not evaluated because a column was absent, cumulative, by rule id. */
  readonly skipped: ReadonlyMap<string, number>;
  /** Columns that the contract lacks, with the number of events that carried them, cumulative; whatever the policy is. */
  readonly unknownColumns: ReadonlyMap<string, number>;
  /** Values written as NULL because `onUnrepresentable: null` says so, cumulative, by column. */
  readonly nulled: ReadonlyMap<string, number>;
}

/**
 * What `check('snapshot', row)` asks of a row that has exactly the contract's columns, taken apart: a row for which every part
 * says yes is clean. Of any other row nothing is said: `check` names its violations.
 */
export interface ColumnwiseGate {
  readonly columns: readonly ColumnGate[];
  readonly rowRules: readonly RowGate[];
}

export interface ColumnGate {
  readonly name: string;
  /** type-table.ts: the form that the type check asks for, and the lake's type that the value must fit. */
  readonly wire: string;
  readonly delta: unknown;
  readonly nullPasses: boolean;
  /** Any value of the right type passes. */
  readonly typeOnly: boolean;
  /** Text of up to so many bytes passes whatever it is; -1 = it must be looked at. */
  readonly bytesPass: number;
  passes(cell: Cell): boolean;
}

export interface RowGate {
  readonly columns: readonly string[];
  /** `row` has at least those columns. */
  passes(row: GateRow): boolean;
}

/** The action that decides the row's fate: the first that is not `warn`, or `warn`. */
export function decisiveAction(violations: readonly Violation[]): Action {
  for (const violation of violations) if (violation.action !== 'warn') return violation.action;
  return 'warn';
}
