/**
 * Which JSON form a PostgreSQL type takes in the envelope. Encoder and decoder share this; the contracts' type table says
 * the same towards the lake. Every type that is not named here passes as PostgreSQL's exact text, a JSON string.
 */
import type { ColumnShape } from './event.ts';

export const WireKind = {
  /** JSON string of PostgreSQL's text. */
  text: 0,
  /** JSON number, digits as PostgreSQL prints them: int2, int4, int8, oid, xid. */
  integer: 1,
  /** JSON number, or the strings NaN, Infinity, -Infinity: float4, float8. */
  float: 2,
  boolean: 3,
  /** JSON string, base64. */
  bytea: 4,
  /** JSON string, PostgreSQL's text with `T` for the space. */
  timestamp: 5,
  /** The same with `Z` for `+00`. */
  timestamptz: 6,
  /** JSON array when one-dimensional with lower bound 1, or empty; otherwise a JSON string of PostgreSQL's text. */
  array: 7,
} as const;
export type WireKindCode = (typeof WireKind)[keyof typeof WireKind];

export interface WireForm {
  readonly kind: WireKindCode;
  /** The element's kind when `kind` is array, otherwise `text`. Elements are never arrays themselves. */
  readonly element: WireKindCode;
  /** The byte between array elements: `;` for box, `,` for every other type (pg_type.typdelim). */
  readonly delimiter: number;
  /** True for float4, whose values are doubles rounded to single precision. */
  readonly single: boolean;
}

const COMMA = 0x2c;
const SEMICOLON = 0x3b;

/** By format_type's name without modifier. Types of users are printed qualified or quoted when they would collide. */
const KIND_OF_NAME: ReadonlyMap<string, WireKindCode> = new Map<string, WireKindCode>([
  ['smallint', WireKind.integer],
  ['integer', WireKind.integer],
  ['bigint', WireKind.integer],
  ['oid', WireKind.integer],
  ['xid', WireKind.integer],
  ['real', WireKind.float],
  ['double precision', WireKind.float],
  ['boolean', WireKind.boolean],
  ['bytea', WireKind.bytea],
  ['timestamp without time zone', WireKind.timestamp],
  ['timestamp with time zone', WireKind.timestamptz],
]);

const TEXT: WireForm = { kind: WireKind.text, element: WireKind.text, delimiter: COMMA, single: false };

export function wireFormOf(column: ColumnShape): WireForm {
  // A pseudonym or a mask is text, whatever it stands for.
  return column.replaced === undefined ? sourceFormOf(column) : TEXT;
}

/** The form of the source's own values. */
export function sourceFormOf(column: ColumnShape): WireForm {
  // A domain is sent as its base type; an array column names its element's type apart, as a domain over an array cannot.
  const name = column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType;
  if (column.kind === 'array' || name.endsWith('[]')) {
    const element =
      column.kind === 'array' && column.baseType !== null ? column.baseType : name.replace(/(\[\])+$/, '');
    const bare = withoutModifier(element);
    return {
      kind: WireKind.array,
      element: KIND_OF_NAME.get(bare) ?? WireKind.text,
      delimiter: bare === 'box' ? SEMICOLON : COMMA,
      single: bare === 'real',
    };
  }
  const bare = withoutModifier(name);
  return {
    kind: KIND_OF_NAME.get(bare) ?? WireKind.text,
    element: WireKind.text,
    delimiter: COMMA,
    single: bare === 'real',
  };
}

/** `timestamp(3) with time zone` → `timestamp with time zone`. */
function withoutModifier(name: string): string {
  return name.replace(/\([^)]*\)/, '');
}
