/** Tables, enums and domains while their DDL is read. */
import type { CatalogCheck, CatalogForeignKey } from './catalog.ts';

export interface TableDraft {
  readonly schema: string;
  readonly table: string;
  readonly columns: Map<string, ColumnDraft>;
  readonly uniques: string[][];
  readonly checks: CatalogCheck[];
  readonly foreignKeys: CatalogForeignKey[];
  comment: string | null;
}
export interface ColumnDraft {
  readonly name: string;
  readonly type: string;
  notNull: boolean;
  keyPosition: number;
  defaultText: string | null;
  comment: string | null;
}
export interface State {
  readonly source: string;
  /** Parts of statements that were passed over, with their place. */
  readonly passed: { readonly at: number; readonly statement: string }[];
  readonly tables: Map<string, TableDraft>;
  readonly enums: Map<string, string[]>;
  readonly domains: Map<string, { readonly base: string; readonly notNull: boolean; readonly check: string | null }>;
}
