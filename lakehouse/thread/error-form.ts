/** Errors on their way between threads: a message copies no class, so the typed ones are named and built again. */
import { IndexError, type IndexErrorCode } from '../index/index-error.ts';
import { ParquetError, type ParquetErrorCode } from '../parquet/parquet-error.ts';
import { StoreError, type StoreErrorCode } from '../store/store.ts';
import { TableError, type TableErrorCode, type TableErrorPlace } from '../table/table-error.ts';

export interface ErrorForm {
  readonly kind: 'store' | 'table' | 'parquet' | 'index' | 'other';
  readonly code: string;
  readonly message: string;
  /** Object key, file or path; a table's place is `place`. */
  readonly where: string;
  readonly place: TableErrorPlace | null;
  readonly stack: string | null;
}

export function toForm(error: unknown): ErrorForm {
  const base = {
    code: '',
    message: error instanceof Error ? error.message : String(error),
    where: '',
    place: null,
    stack: error instanceof Error ? (error.stack ?? null) : null,
  };
  if (error instanceof StoreError) return { ...base, kind: 'store', code: error.code, where: error.key };
  if (error instanceof TableError) return { ...base, kind: 'table', code: error.code, place: error.place };
  if (error instanceof ParquetError) return { ...base, kind: 'parquet', code: error.code, where: error.file };
  if (error instanceof IndexError) return { ...base, kind: 'index', code: error.code, where: error.path };
  return { ...base, kind: 'other' };
}

/** The codes come from `toForm`, in the other thread of this very program. */
export function fromForm(form: ErrorForm): Error {
  const error = build(form);
  // The constructors add the place to the text; it is there already.
  error.message = form.message;
  if (form.stack !== null) error.stack = form.stack;
  return error;
}

function build(form: ErrorForm): Error {
  switch (form.kind) {
    case 'store':
      return new StoreError(form.code as StoreErrorCode, form.where, form.message);
    case 'table':
      return new TableError(form.code as TableErrorCode, form.place ?? { table: '' }, form.message);
    case 'parquet':
      return new ParquetError(form.code as ParquetErrorCode, form.where, form.message);
    case 'index':
      return new IndexError(form.code as IndexErrorCode, form.where, form.message);
    case 'other':
      return new Error(form.message);
  }
}
