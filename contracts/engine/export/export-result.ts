/** What an export gives: the text, and what of the contract the target cannot say. With `--strict` a lossy export fails. */
import type { Contract, TableContract } from '../model.ts';

export interface LossyItem {
  /** `orders.total` or `orders.orders_rows`. */
  readonly subject: string;
  readonly message: string;
}

export interface ExportResult {
  readonly text: string;
  /** Statements that must stand once before the text, however many tables need them: CREATE TYPE, CREATE SCHEMA. */
  readonly before?: readonly string[];
  readonly lossy: readonly LossyItem[];
}

export type TableExport = (contract: Contract, table: TableContract) => ExportResult;
