export type IndexErrorCode = 'INDEX_CORRUPT' | 'INDEX_FORMAT_NEWER';

/**
 * The key index could not be used as it lies on disk. It is a cache: the writer answers INDEX_CORRUPT by a rebuild from the
 * table; INDEX_FORMAT_NEWER means that a newer version of the product wrote it.
 */
export class IndexError extends Error {
  readonly code: IndexErrorCode;
  readonly path: string;
  constructor(code: IndexErrorCode, path: string, what: string, options?: { cause?: unknown }) {
    super(`key index ${path}: ${what}; it is rebuilt from the table when its folder is removed`, options);
    this.name = 'IndexError';
    this.code = code;
    this.path = path;
  }
}
