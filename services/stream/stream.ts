/**
 * The micro-batch loop of one query, one batch a step:
 *
 *   plan (cut at marks) → offset log → read and build → sink → commit log
 *
 * A plan is written down before it runs and runs again, unchanged, until its commit is written. Where the sink itself knows
 * what it has committed (a Delta table's `txn`), that is the truth and the commit log only repeats it; for other sinks the
 * commit log is the truth. What stops half-way leaves a plan without a commit: the next step, or the next process, finds it.
 *
 * Where more than a batch waits, the next one may be read and decoded while the sink writes this one (`beginNext`). That is
 * work on trust: nothing of it is written down, and it counts only if the next plan turns out to be the one it was begun for.
 */
import type { LogOffset } from '../log/position.ts';
import type { BatchPlan, Checkpoint } from './checkpoint.ts';
import { planBatch } from './plan.ts';
import type { Cut, PlanLimits, Planned } from './plan.ts';
import { buildProgress, emptyDurations } from './progress.ts';
import type { PhaseDurations, QueryProgress, SourceOffsets } from './progress.ts';
import type { BatchSink, StreamBatch } from './sink.ts';
import { StreamError } from './stream-error.ts';

/** Where a query stands: everything below `nextOffsets` is in the sink. */
export interface QueryPosition {
  /** Last batch that the sink has, or null before the first. */
  readonly batchId: bigint | null;
  readonly nextOffsets: ReadonlyMap<number, LogOffset>;
  /** Sequence of the mark that was reached; 0 = none. */
  readonly markSequence: number;
}

/** What was begun of a batch before its plan. */
export interface Begun {
  /** Called once, whatever becomes of it. */
  release(): void;
}

export interface QueryOptions<B extends StreamBatch, A extends Begun = Begun> {
  readonly name: string;
  readonly runId: string;
  readonly topic: string;
  readonly checkpoint: Checkpoint;
  readonly now: () => number;
  readonly sourceDescription: string;
  readonly sinkDescription: string;
  readonly limits: Omit<PlanLimits, 'barrier'>;
  readonly cutsAfter: (sequence: number) => readonly Cut[];
  /** Newest offsets known, for progress. */
  readonly latestOffsets: () => ReadonlyMap<number, LogOffset>;
  /** What the sink has, by its own account; null: it keeps none, the commit log decides. */
  readonly committed: (() => Promise<QueryPosition | null>) | null;
  /**
   * Text to write down with a new plan. `planned` is null for a batch that only takes up what earlier ones left; it ends at the
   * mark of sequence `at`, null = the newest.
   */
  readonly describe: (planned: Planned | null, at: number | null) => Promise<Readonly<Record<string, string>>>;
  /** A standing plan of which nothing was committed may run with another text (a contract corrected after a stop). */
  readonly revise: ((standing: BatchPlan) => Promise<BatchPlan>) | null;
  /** Whether a batch without new records is due; `atEnd`: no barrier stands before the newest mark. */
  readonly hasLeftovers: (atEnd: boolean) => boolean;
  /** `begun`: what `begin` made of the same offsets up to the same mark, if it did. */
  readonly build: (plan: BatchPlan, begun: A | null) => Promise<B>;
  /** Begins a batch while the sink has the one before. Null: not now. */
  readonly begin?: (planned: Planned) => Promise<A | null> | null;
  readonly sink: BatchSink<B>;
  readonly failpoint: (name: string) => Promise<void> | void;
  readonly onProgress: (progress: QueryProgress, batch: B) => void;
}

export type StepResult = 'idle' | 'ran';

export interface Query {
  readonly position: () => QueryPosition;
  /** Reads the position; called by the first step and again after a failed one. */
  open(): Promise<void>;
  /** One batch, if there is one. `barrier`: mark that no plan may pass. */
  step(barrier: number | null): Promise<StepResult>;
  /** To be called by the sink when it has no more use for the main thread: the batch behind its own is begun, if a full one waits. */
  beginNext(): void;
  /** Waits for what was begun, and drops it. */
  dropBegun(): Promise<void>;
}

/** A batch in the sink: where the query stands behind it, and what the next plan may not pass. */
interface InSink {
  readonly reached: QueryPosition;
  readonly barrier: number | null;
}

export function createQuery<B extends StreamBatch, A extends Begun = Begun>(options: QueryOptions<B, A>): Query {
  const { checkpoint, now } = options;
  let position: QueryPosition | null = null;
  let standing: BatchPlan | null = null;
  let previousStartedMs: number | null = null;
  let planAt = 0;
  let inSink: InSink | null = null;
  let early: { readonly planned: Planned; readonly after: number; readonly work: Promise<A | null> } | null = null;

  async function open(): Promise<void> {
    await dropBegun();
    position = options.committed === null ? await committedByLog() : ((await options.committed()) ?? START);
    standing = await checkpoint.plan(nextId(position));
    if (standing !== null && !startsAt(standing.from, position)) standing = null;
  }

  async function committedByLog(): Promise<QueryPosition> {
    const batchId = await checkpoint.latestCommit();
    if (batchId === null) return START;
    const plan = await checkpoint.plan(batchId);
    if (plan === null)
      throw new StreamError(
        'CHECKPOINT_CORRUPT',
        `query ${options.name}: commits/${batchId} has no offsets/${batchId}`,
        'restore the checkpoint folder, or start the query anew under another name',
      );
    return { batchId, nextOffsets: plan.to, markSequence: Number(plan.conf['sluice.mark'] ?? 0) };
  }

  async function choose(at: QueryPosition, barrier: number | null): Promise<BatchPlan | null> {
    if (standing !== null) return options.revise === null ? standing : revised(standing, options.revise);
    const cuts = options.cutsAfter(at.markSequence);
    let leftoversAt: number | null = null;
    const planned = begunAt(at, barrier) ?? planBatch(at.nextOffsets, cuts, { ...options.limits, barrier });
    if (planned === null) {
      const reached = cuts.findLast(({ sequence }) => barrier === null || sequence <= barrier);
      const atEnd = reached === cuts.at(-1);
      if ((reached === undefined && !atEnd) || !options.hasLeftovers(atEnd)) {
        if (reached !== undefined) position = { ...at, markSequence: reached.sequence };
        return null;
      }
      leftoversAt = atEnd ? null : (reached?.sequence ?? null);
    }
    planAt = now();
    const wanted: BatchPlan = {
      batchId: nextId(at),
      timestampMs: planAt,
      topic: options.topic,
      from: planned?.from ?? new Map(),
      to: new Map([...at.nextOffsets, ...(planned?.to ?? [])]),
      conf: await options.describe(planned, leftoversAt),
    };
    const written = await checkpoint.writePlan(wanted);
    if (written === wanted || startsAt(written.from, at)) return written;
    // A plan of this number that starts elsewhere belongs to another life of the table; nothing of it is in the sink.
    await checkpoint.replacePlan(wanted);
    return wanted;
  }

  /** The plan that was begun, if it still may be the next one. */
  function begunAt(at: QueryPosition, barrier: number | null): Planned | null {
    if (early === null || early.after !== at.markSequence) return null;
    const { planned } = early;
    const passes = barrier !== null && planned.cut.sequence > barrier;
    return passes || !startsAt(planned.from, at) ? null : planned;
  }

  function beginNext(): void {
    if (inSink === null || early !== null || options.begin === undefined) return;
    const { reached, barrier } = inSink;
    const planned = fullPlan(reached, barrier);
    const work = planned === null ? null : options.begin(planned);
    // Whatever is wrong with it, the batch itself meets again.
    if (planned !== null && work !== null)
      early = { planned, after: reached.markSequence, work: work.catch(() => null) };
  }

  /** A small batch costs nothing to wait for, and grows while it does. */
  function fullPlan({ nextOffsets, markSequence }: QueryPosition, barrier: number | null): Planned | null {
    const { limits } = options;
    let planned: Planned | null;
    try {
      planned = planBatch(nextOffsets, options.cutsAfter(markSequence), { ...limits, barrier });
    } catch {
      return null;
    }
    if (planned === null) return null;
    const isFull =
      planned.offsets * 2 >= limits.maxOffsetsPerTrigger || planned.bytesEstimate * 2 >= limits.batchBytesMax;
    return isFull ? planned : null;
  }

  async function dropBegun(): Promise<void> {
    const begun = early;
    early = null;
    if (begun !== null) (await begun.work)?.release();
  }

  async function takeBegun(plan: BatchPlan): Promise<A | null> {
    if (early === null) return null;
    const { planned, work } = early;
    const same =
      Number(plan.conf['sluice.mark'] ?? 0) === planned.cut.sequence &&
      sameOffsets(plan.from, planned.from) &&
      [...planned.to].every(([partition, to]) => plan.to.get(partition) === to);
    if (same) {
      early = null;
      return work;
    }
    await dropBegun();
    return null;
  }

  async function revised(plan: BatchPlan, revise: (plan: BatchPlan) => Promise<BatchPlan>): Promise<BatchPlan> {
    const better = await revise(plan);
    if (better !== plan) await checkpoint.replacePlan(better);
    return better;
  }

  async function step(barrier: number | null): Promise<StepResult> {
    if (position === null) await open();
    const at = position ?? START;
    const startedMs = now();
    const phases = emptyDurations();
    try {
      const plan = await timed(phases, 'queryPlanning', now, () => choose(at, barrier));
      if (plan === null) return 'idle';
      standing = plan;
      await options.failpoint('after-offset-log-write');
      const batch = await timed(phases, 'getBatch', now, async () => options.build(plan, await takeBegun(plan)));
      const reached = {
        batchId: plan.batchId,
        nextOffsets: later(at.nextOffsets, plan.to),
        markSequence: Math.max(at.markSequence, Number(plan.conf['sluice.mark'] ?? 0)),
      };
      inSink = { reached, barrier };
      await timed(phases, 'addBatch', now, () => options.sink(batch, plan.batchId));
      await timed(phases, 'commitOffsets', now, () => checkpoint.writeCommit(plan.batchId));
      position = reached;
      standing = null;
      phases.triggerExecution = now() - startedMs;
      await report(plan, batch, phases, startedMs);
      return 'ran';
    } catch (error) {
      // What was committed before the failure only the sink knows: the next step asks it.
      position = null;
      throw error;
    } finally {
      inSink = null;
    }
  }

  async function report(plan: BatchPlan, batch: B, durationMs: PhaseDurations, startedMs: number): Promise<void> {
    const progress = buildProgress({
      id: await checkpoint.id(),
      runId: options.runId,
      name: options.name,
      startedMs,
      previousStartedMs,
      batchId: plan.batchId,
      numInputRows: batch.rowCount,
      durationMs,
      source: {
        description: options.sourceDescription,
        startOffset: offsetsOf(plan.topic, plan.from),
        endOffset: offsetsOf(plan.topic, plan.to),
        latestOffset: offsetsOf(plan.topic, options.latestOffsets()),
      },
      sink: { description: options.sinkDescription, numOutputRows: batch.rowCount },
    });
    previousStartedMs = startedMs;
    options.onProgress(progress, batch);
  }

  return { position: () => position ?? START, open, step, beginNext, dropBegun };
}

const START: QueryPosition = { batchId: null, nextOffsets: new Map(), markSequence: 0 };

function nextId(position: QueryPosition): bigint {
  return position.batchId === null ? 0n : position.batchId + 1n;
}

/** A plan continues a position when it starts where the position ends. */
function startsAt(offsets: ReadonlyMap<number, LogOffset>, position: QueryPosition): boolean {
  for (const [partition, from] of offsets)
    if (from !== (position.nextOffsets.get(partition) ?? (0n as LogOffset))) return false;
  return true;
}

function sameOffsets(a: ReadonlyMap<number, LogOffset>, b: ReadonlyMap<number, LogOffset>): boolean {
  return a.size === b.size && [...a].every(([partition, offset]) => b.get(partition) === offset);
}

function later(a: ReadonlyMap<number, LogOffset>, b: ReadonlyMap<number, LogOffset>): Map<number, LogOffset> {
  const merged = new Map(a);
  for (const [partition, offset] of b) {
    const known = merged.get(partition);
    if (known === undefined || offset > known) merged.set(partition, offset);
  }
  return merged;
}

async function timed<T>(
  phases: PhaseDurations,
  phase: keyof PhaseDurations,
  now: () => number,
  work: () => Promise<T>,
): Promise<T> {
  const started = now();
  try {
    return await work();
  } finally {
    phases[phase] += now() - started;
  }
}

function offsetsOf(topic: string, offsets: ReadonlyMap<number, LogOffset>): SourceOffsets {
  return { [topic]: Object.fromEntries([...offsets].map(([partition, offset]) => [String(partition), offset])) };
}
