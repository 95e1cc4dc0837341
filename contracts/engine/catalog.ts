/** A table as the database's catalog describes it; what `infer` reads and the type table maps. No driver in sight. */
export interface CatalogColumn {
  readonly name: string;
  /** PostgreSQL's format_type text: `numeric(12,2)`, `text[]`, `public.order_status`. */
  readonly pgType: string;
  /** Domain: the base type's format_type; array: the element's; else null. */
  readonly baseType: string | null;
  readonly kind: 'base' | 'enum' | 'domain' | 'array' | 'composite' | 'range';
  readonly enumLabels: readonly string[] | null;
  readonly notNull: boolean;
  /** Position in the key, from 1; 0 = not part of it. */
  readonly keyPosition: number;
  /** The default's expression as pg_get_expr gives it: `now()`, `'new'::order_status`. */
  readonly defaultText?: string | null;
  /** COMMENT ON COLUMN. */
  readonly comment?: string | null;
}

export interface CatalogTable {
  readonly schema: string;
  readonly table: string;
  readonly columns: readonly CatalogColumn[];
  /** COMMENT ON TABLE. */
  readonly comment?: string | null;
  /** Column lists of UNIQUE constraints and unique indexes without predicate; the primary key is not among them. */
  readonly uniques?: readonly (readonly string[])[];
  readonly checks?: readonly CatalogCheck[];
  readonly foreignKeys?: readonly CatalogForeignKey[];
  readonly replicaIdentity?: 'default' | 'full' | 'index' | 'nothing';
}

export interface CatalogCheck {
  readonly name: string;
  /** What stands between CHECK's parentheses, as pg_get_expr gives it; of a domain with VALUE replaced by the column. */
  readonly expression: string;
}

export interface CatalogForeignKey {
  readonly columns: readonly string[];
  readonly table: string;
  readonly referenced: readonly string[];
}
