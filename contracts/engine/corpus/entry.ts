/**
 * Contracts, right and wrong, each with the verdict of the official 3.1.0 and 3.2.0 schemas and ours. Where ours is stricter
 * the entry says why; nowhere is ours looser.
 */
export interface CorpusEntry {
  readonly name: string;
  readonly text: string;
  /** Verdict of the official schema of the entry's own minor version (3.0.x is judged by 3.1.0's, which lists it). */
  readonly official: boolean;
  /** Codes of our errors, sorted; empty = valid. */
  readonly errors: readonly string[];
  /** Why ours says no where the official schema says yes. */
  readonly stricter?: string;
}

export const COLUMN =
  '{name: id, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, required: true}';

/** A small right contract with parts put in: `root` lines, `table` lines, more `columns`. */
export function contract(
  parts: {
    readonly head?: string;
    readonly root?: string;
    readonly table?: string;
    readonly columns?: readonly string[];
  } = {},
): string {
  const head = parts.head ?? 'apiVersion: v3.1.0\nkind: DataContract\nid: shop.t\nversion: 1.0.0\nstatus: active';
  const columns = [COLUMN, ...(parts.columns ?? [])].map((column) => `      - ${column}\n`).join('');
  return `${head}\n${parts.root ?? ''}schema:\n  - name: t\n${parts.table ?? ''}    properties:\n${columns}`;
}
export const V32 = 'apiVersion: v3.2.0\nkind: DataContract\nid: shop.t\nversion: 1.0.0';
export const column = (text: string): string => contract({ columns: [text] });
export const column32 = (text: string): string => contract({ head: V32, columns: [text] });
export const rule = (text: string): string =>
  contract({ columns: [`{name: a, logicalType: string, physicalType: text, quality: [${text}]}`] });
export const tableRule = (text: string): string => contract({ table: `    quality: [${text}]\n` });
export const server = (text: string): string => contract({ root: `servers: [${text}]\n` });

export const ok = (name: string, text: string): CorpusEntry => ({ name, text, official: true, errors: [] });
export const both = (name: string, text: string, ...errors: string[]): CorpusEntry => ({
  name,
  text,
  official: false,
  errors,
});
export const ours = (name: string, stricter: string, text: string, ...errors: string[]): CorpusEntry => ({
  name,
  text,
  official: true,
  errors,
  stricter,
});
