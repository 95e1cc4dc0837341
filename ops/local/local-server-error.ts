export type LocalServerErrorCode =
  /** No binaries for this platform or version, or a tool that fetches or runs them is absent. */
  | 'SERVER_UNAVAILABLE'
  | 'SERVER_START_FAILED'
  | 'SERVER_STOP_FAILED'
  /** Another server runs on the same data folder, or the folder belongs to another version. */
  | 'SERVER_DATA_UNUSABLE';

/** A local server that could not be had: what failed, where (folder, port) and what to do stand in the message. */
export class LocalServerError extends Error {
  readonly code: LocalServerErrorCode;
  constructor(code: LocalServerErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'LocalServerError';
    this.code = code;
  }
}
