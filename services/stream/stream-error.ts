/** Failures of a query that have a name. Each stops the query or table it names and nothing else. */
export type StreamErrorCode =
  /** Another log stands where ours stood, or its offsets went backwards. */
  | 'TOPIC_RESET'
  /** The lake's table has rows of another writer. */
  | 'LAKE_TABLE_FOREIGN'
  /** Records that no batch has read are gone from the log. */
  | 'OFFSETS_EXPIRED'
  /** A rule with action `fail`, the quarantine trip wire, or a contract that does not compile. */
  | 'CONTRACT_FAILED'
  /** The source's shape does not go into the lake's table. */
  | 'SCHEMA_CONFLICT'
  /** What needs a key was asked of a table that has none. */
  | 'TABLE_NO_KEY'
  /** A batch id is taken although its offsets lie above the stored ones. */
  | 'BATCH_ID_TAKEN'
  /** The batch's counts do not add up: nothing of it was committed to the table. */
  | 'LEDGER_MISMATCH'
  /** A persisted form newer than this program. */
  | 'FORMAT_NEWER'
  /** Several workers, and a checkpoint that only one machine reaches. */
  | 'CHECKPOINT_NOT_SHARED'
  /** A checkpoint file that is not what it should be. */
  | 'CHECKPOINT_CORRUPT'
  /** Rows awaiting a base outgrew their memory limit. */
  | 'AWAITING_LIMIT'
  /** A module named in the configuration does not give the function it should. */
  | 'SINK_INVALID'
  /** A user's sink threw. */
  | 'SINK_FAILED';

export class StreamError extends Error {
  readonly code: StreamErrorCode;
  /** One line: what to do. */
  readonly remedy: string;
  constructor(code: StreamErrorCode, message: string, remedy: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StreamError';
    this.code = code;
    this.remedy = remedy;
  }
}
