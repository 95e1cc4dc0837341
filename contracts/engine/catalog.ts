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
}

export interface CatalogTable {
  readonly schema: string;
  readonly table: string;
  readonly columns: readonly CatalogColumn[];
}
