/**
 * What one kill-and-fault run does, drawn from its seed alone: which log and lake, what strikes when. Pure, so that a failing
 * run is repeated by its seed; only the operating system's timing is not in it.
 */
import { FAILPOINTS, type FailpointName } from '../../services/runtime/failpoints.ts';
import { seededRandom, type SeededRandom } from './seeded-random.ts';

export type LogKind = 'embedded' | 'kafka';
export type LakeKind = 'file' | 's3';
export type ServerKind = 'postgres' | 'kafka' | 's3';

export type Fault =
  /** SIGKILL, and started again. */
  | { readonly kind: 'kill' }
  /** Started so that it kills itself at the n-th passage of a named point. */
  | { readonly kind: 'kill-at'; readonly point: FailpointName; readonly passage: number }
  /** SIGTERM: must end with 0 within 10 s; started again. */
  | { readonly kind: 'end' }
  /** SIGSTOP, and SIGCONT later. */
  | { readonly kind: 'freeze'; readonly ms: number }
  /** SIGSTOP; another process takes over; SIGCONT: the first must notice that it was replaced. */
  | { readonly kind: 'take-over'; readonly ms: number }
  /** Started again on a store whose answers get lost, break off or lie. */
  | { readonly kind: 'lying-store'; readonly seed: number }
  /** SIGKILL of a server, and started again later. */
  | { readonly kind: 'kill-server'; readonly server: ServerKind; readonly downMs: number }
  /** An orderly restart of PostgreSQL. */
  | { readonly kind: 'restart-postgres'; readonly downMs: number }
  /** pg_terminate_backend of every session of the pipeline. */
  | { readonly kind: 'cut-sessions' }
  /** Killed; the local state is deleted (of the embedded log everything else: the log is data); started again. */
  | { readonly kind: 'lose-state' }
  /** Killed; the checkpoints in the lake are deleted; started again. */
  | { readonly kind: 'lose-checkpoint' }
  /** A command beside the running pipeline. */
  | { readonly kind: 'command'; readonly command: 'optimize' | 'checkpoint' | 'backfill' | 'verify' };

export interface ScheduledFault {
  /** After the fault before it. */
  readonly afterMs: number;
  readonly fault: Fault;
}

export interface FaultPlan {
  readonly seed: number;
  readonly log: LogKind;
  readonly lake: LakeKind;
  /** Reader and stream as two processes. */
  readonly halves: boolean;
  readonly partitions: number;
  readonly chunkRows: number;
  readonly triggerMs: number;
  readonly maxOffsetsPerTrigger: number;
  readonly rows: number;
  readonly faults: readonly ScheduledFault[];
}

export interface PlanLimits {
  readonly logs: readonly [LogKind, ...LogKind[]];
  readonly lakes: readonly [LakeKind, ...LakeKind[]];
  readonly faultsMax: number;
}

export function planFaults(seed: number, limits: PlanLimits): FaultPlan {
  const random = seededRandom(seed);
  const log = random.pick(limits.logs);
  const lake = random.pick(limits.lakes);
  const halves = random.next() < 0.3;
  const partitions = 1 + random.integer(3);
  const chunkRows = random.pick([100, 300, 1_000, 100_000]);
  const triggerMs = random.pick([50, 100, 300]);
  const maxOffsetsPerTrigger = random.pick([100, 1_000, 100_000]);
  const rows = random.pick([0, 300, 2_000]);
  const count = 1 + random.integer(limits.faultsMax);
  const faults = Array.from({ length: count }, () => ({
    afterMs: 100 + random.integer(2_000),
    fault: drawFault(random, log, lake),
  }));
  return {
    seed,
    log,
    lake,
    halves,
    partitions,
    chunkRows,
    triggerMs,
    maxOffsetsPerTrigger,
    rows,
    faults,
  };
}

function drawFault(random: SeededRandom, log: LogKind, lake: LakeKind): Fault {
  const servers: [ServerKind, ...ServerKind[]] = ['postgres'];
  if (log === 'kafka') servers.push('kafka');
  if (lake === 's3') servers.push('s3');
  const roll = random.integer(100);
  if (roll < 18) return { kind: 'kill' };
  if (roll < 38) return { kind: 'kill-at', point: drawPoint(random), passage: 1 + random.integer(4) };
  if (roll < 44) return { kind: 'end' };
  if (roll < 50) return { kind: 'freeze', ms: 500 + random.integer(3_500) };
  if (roll < 54) return { kind: 'take-over', ms: 2_000 + random.integer(3_000) };
  if (roll < 66) return { kind: 'lying-store', seed: 1 + random.integer(2 ** 31) };
  if (roll < 76) return { kind: 'kill-server', server: random.pick(servers), downMs: 200 + random.integer(1_800) };
  if (roll < 79) return { kind: 'restart-postgres', downMs: random.integer(500) };
  if (roll < 83) return { kind: 'cut-sessions' };
  if (roll < 88) return { kind: 'lose-state' };
  if (roll < 92) return { kind: 'lose-checkpoint' };
  return { kind: 'command', command: random.pick(['optimize', 'checkpoint', 'backfill', 'verify']) };
}

function drawPoint(random: SeededRandom): FailpointName {
  const [first, ...rest] = FAILPOINTS;
  return random.pick([first, ...rest]);
}

/** One line a fault, for the report of a failing run. */
export function describePlan(plan: FaultPlan): string {
  const parts = plan.halves ? 'reader and stream apart' : 'one process';
  const head = `${plan.log} log (${plan.partitions} partitions), ${plan.lake} lake, ${parts}, chunks of ${plan.chunkRows}, trigger ${plan.triggerMs} ms, ${plan.maxOffsetsPerTrigger} offsets a batch, ${plan.rows} rows at the start`;
  const lines = plan.faults.map(({ afterMs, fault }) => {
    const { kind, ...how } = fault;
    return `  +${afterMs} ms ${kind} ${Object.values(how).join(' ')}`.trimEnd();
  });
  return [head, ...lines].join('\n');
}
