/** PostgreSQL type names as format_type, DDL and people write them, brought to one spelling. */
export interface PgType {
  /** Catalog name: `int8`, `varchar`, `timestamptz`; unknown types keep their own (`public.order_status`). */
  readonly name: string;
  /** Type modifier arguments: [12, 2] of numeric(12,2). */
  readonly args: readonly number[];
  /** 0 for a scalar. The rank is not part of a PostgreSQL array type: `int[][]` is `int[]`. */
  readonly array: boolean;
  /** The name is one of PostgreSQL's own. */
  readonly known: boolean;
}

const ALIASES: Readonly<Record<string, string>> = {
  boolean: 'bool',
  smallint: 'int2',
  smallserial: 'int2',
  serial2: 'int2',
  integer: 'int4',
  int: 'int4',
  serial: 'int4',
  serial4: 'int4',
  bigint: 'int8',
  bigserial: 'int8',
  serial8: 'int8',
  real: 'float4',
  'double precision': 'float8',
  decimal: 'numeric',
  dec: 'numeric',
  'character varying': 'varchar',
  'char varying': 'varchar',
  character: 'bpchar',
  char: 'bpchar',
  'national character': 'bpchar',
  nchar: 'bpchar',
  'timestamp without time zone': 'timestamp',
  'timestamp with time zone': 'timestamptz',
  'time without time zone': 'time',
  'time with time zone': 'timetz',
  'bit varying': 'varbit',
};

/** Types of a stock server, and of contrib modules that people use, whose text form passes as it is. */
const TEXT_TYPES = [
  'money interval time timetz uuid json jsonb inet cidr macaddr macaddr8 bit varbit xml tsvector tsquery',
  'int4range int8range numrange tsrange tstzrange daterange',
  'int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange',
  'point line lseg box path polygon circle hstore ltree lquery cube geometry geography vector pg_lsn txid_snapshot pg_snapshot xid8 cid tid',
  'regclass regproc regtype regrole regnamespace regoper regoperator regprocedure regconfig regdictionary jsonpath',
  'text varchar bpchar citext name char',
]
  .join(' ')
  .split(' ');
const KNOWN: ReadonlySet<string> = new Set([
  ...TEXT_TYPES,
  ...'bool int2 int4 int8 oid xid float4 float8 numeric bytea date timestamp timestamptz'.split(' '),
]);

const FORM =
  /^(.+?)(?:\(\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\))?( with(?:out)? time zone)?((?:\s*\[\d*\])+|\s+array(?:\s*\[\d*\])?)?$/i;

/** Never fails: what it does not know it returns under the name given, `known: false`. */
export function parsePgType(text: string): PgType {
  const spaced = text.trim().replaceAll(/\s+/g, ' ');
  const match = FORM.exec(spaced);
  const written = `${match?.[1]?.trim() ?? spaced}${match?.[3] ?? ''}`;
  const args = match?.[2]?.split(',').map((part) => Number(part.trim())) ?? [];
  const array = match?.[4] !== undefined;
  // `"char"` is another type than char, and quoted names are case-sensitive.
  if (written === '"char"') return { name: 'char', args, array, known: true };
  const lower = written.includes('"') ? written : written.toLowerCase().replace(/^pg_catalog\./, '');
  const interval = /^interval( .*)?$/.test(lower);
  const plainName = interval ? 'interval' : lower;
  const name = Object.hasOwn(ALIASES, plainName) ? (ALIASES[plainName] ?? plainName) : plainName;
  // citext and hstore live in whatever schema their extension was made in.
  const bare = name.includes('"') ? name : name.slice(name.lastIndexOf('.') + 1);
  const extension = EXTENSION_TYPES.has(bare) ? bare : name;
  return { name: extension, args, array, known: KNOWN.has(extension) };
}
const EXTENSION_TYPES: ReadonlySet<string> = new Set([
  'citext',
  'hstore',
  'ltree',
  'lquery',
  'cube',
  'geometry',
  'geography',
  'vector',
]);

/** One spelling of a type, for comparing: `VARCHAR( 20 )` and `character varying(20)` are both `varchar(20)`. */
export function canonicalPgType(text: string): string {
  const type = parsePgType(text);
  const args = type.name === 'bpchar' && type.args.length === 0 ? [1] : type.args;
  return `${type.name}${args.length === 0 ? '' : `(${args.join(',')})`}${type.array ? '[]' : ''}`;
}
