/** Progress of a query, with the fields that users of Structured Streaming's StreamingQueryProgress know. */

/** ms by phase. */
export interface PhaseDurations {
  latestOffset: number;
  queryPlanning: number;
  walCommit: number;
  getBatch: number;
  addBatch: number;
  commitOffsets: number;
  triggerExecution: number;
}

/** Offsets as Spark's Kafka source writes them: topic → partition → offset. Bigint offsets print as exact digits. */
export type SourceOffsets = Readonly<Record<string, Readonly<Record<string, bigint>>>>;

export interface SourceProgress {
  readonly description: string;
  readonly startOffset: SourceOffsets;
  readonly endOffset: SourceOffsets;
  readonly latestOffset: SourceOffsets;
  readonly numInputRows: number;
  readonly inputRowsPerSecond: number;
  readonly processedRowsPerSecond: number;
}

export interface SinkProgress {
  readonly description: string;
  readonly numOutputRows: number;
}

/** State of one stateful operator. */
export interface StateOperatorProgress {
  readonly operatorName: string;
  readonly numRowsTotal: number;
  readonly numRowsUpdated: number;
  readonly memoryUsedBytes: number;
}

export interface QueryProgress {
  readonly id: string;
  readonly runId: string;
  readonly name: string;
  /** ISO 8601, start of the trigger. */
  readonly timestamp: string;
  readonly batchId: bigint;
  readonly batchDuration: number;
  readonly numInputRows: number;
  readonly inputRowsPerSecond: number;
  readonly processedRowsPerSecond: number;
  readonly durationMs: Readonly<PhaseDurations>;
  readonly stateOperators: readonly StateOperatorProgress[];
  readonly sources: readonly SourceProgress[];
  readonly sink: SinkProgress;
}

export function emptyDurations(): PhaseDurations {
  return {
    latestOffset: 0,
    queryPlanning: 0,
    walCommit: 0,
    getBatch: 0,
    addBatch: 0,
    commitOffsets: 0,
    triggerExecution: 0,
  };
}

export interface ProgressInput {
  readonly id: string;
  readonly runId: string;
  readonly name: string;
  readonly startedMs: number;
  readonly previousStartedMs: number | null;
  readonly batchId: bigint;
  readonly numInputRows: number;
  readonly durationMs: PhaseDurations;
  readonly source: {
    readonly description: string;
    readonly startOffset: SourceOffsets;
    readonly endOffset: SourceOffsets;
    readonly latestOffset: SourceOffsets;
  };
  readonly sink: SinkProgress;
}

/** Rates as Spark defines them: input over the time between two triggers, processed over the trigger's own time. */
export function buildProgress(input: ProgressInput): QueryProgress {
  const betweenMs = input.previousStartedMs === null ? 0 : input.startedMs - input.previousStartedMs;
  const inputRowsPerSecond = perSecond(input.numInputRows, betweenMs);
  const processedRowsPerSecond = perSecond(input.numInputRows, input.durationMs.triggerExecution);
  return {
    id: input.id,
    runId: input.runId,
    name: input.name,
    timestamp: new Date(input.startedMs).toISOString(),
    batchId: input.batchId,
    batchDuration: input.durationMs.triggerExecution,
    numInputRows: input.numInputRows,
    inputRowsPerSecond,
    processedRowsPerSecond,
    durationMs: { ...input.durationMs },
    stateOperators: [],
    sources: [{ ...input.source, numInputRows: input.numInputRows, inputRowsPerSecond, processedRowsPerSecond }],
    sink: input.sink,
  };
}

function perSecond(rows: number, ms: number): number {
  return ms <= 0 ? 0 : (rows * 1000) / ms;
}
