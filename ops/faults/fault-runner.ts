/** Many runs, one seed after the other; a failed one is told with its seed and plan, and its files are kept. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { startDrillServers } from './drill-servers.ts';
import { describePlan, planFaults, type PlanLimits } from './fault-plan.ts';
import { runFaults, type RunResult } from './fault-run.ts';

export interface DrillOptions extends PlanLimits {
  readonly firstSeed: number;
  readonly runs: number;
  readonly folder: string;
  /** Program and first arguments of `sluice`. */
  readonly program: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly tell: (line: string) => void;
  readonly cache?: string;
}

export interface DrillSummary {
  readonly schemaVersion: 1;
  readonly runs: number;
  readonly failed: readonly {
    readonly seed: number;
    readonly plan: string;
    readonly error: string;
    readonly folder: string;
  }[];
  readonly transactions: number;
  readonly rowsCompared: number;
  readonly seconds: number;
}

export async function runDrill(options: DrillOptions): Promise<DrillSummary> {
  const { firstSeed, runs, tell, signal } = options;
  const started = performance.now();
  const folderOf = (seed: number): string => join(options.folder, `seed-${seed}`);
  const servers = await startDrillServers({ ...options, folderOf });
  const failed: { seed: number; plan: string; error: string; folder: string }[] = [];
  let done = 0;
  let transactions = 0;
  let rowsCompared = 0;
  try {
    for (let seed = firstSeed; seed < firstSeed + runs && !signal.aborted; seed += 1) {
      const plan = planFaults(seed, options);
      const folder = folderOf(seed);
      rmSync(folder, { recursive: true, force: true });
      let result: RunResult;
      try {
        result = await runFaults(plan, { ...options, servers, folder });
      } catch (error) {
        if (signal.aborted) break;
        done += 1;
        const message = error instanceof Error ? error.message : String(error);
        failed.push({ seed, plan: describePlan(plan), error: message, folder });
        tell(`seed ${seed}: FAILED\n${describePlan(plan)}\n${message}\n  its files: ${folder}`);
        continue;
      }
      done += 1;
      transactions += result.transactions;
      rowsCompared += result.rows;
      rmSync(folder, { recursive: true, force: true });
      const faults = plan.faults.map(({ fault }) => fault.kind).join(', ');
      tell(
        `seed ${seed}: equal, ${result.rows} rows in ${result.tables} tables after ${result.transactions} transactions, ${result.seconds.toFixed(1)} s (${plan.log}, ${plan.lake}; ${faults})`,
      );
    }
  } finally {
    await servers.close();
  }
  return {
    schemaVersion: 1,
    runs: done,
    failed,
    transactions,
    rowsCompared,
    seconds: (performance.now() - started) / 1000,
  };
}
