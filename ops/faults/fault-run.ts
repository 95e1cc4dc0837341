/**
 * One run: a pipeline in processes of its own, a workload, the faults of the plan, then calm; it must catch up by itself, end
 * in order, and its lake must equal the source, row by row. Whatever else happens fails the run.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../local/free-port.ts';
import type { Fault, FaultPlan } from './fault-plan.ts';
import { loadSql, FAULT_SCHEMA_SQL } from './fault-workload.ts';
import type { DrillServers } from './drill-servers.ts';
import { runCommand, startProcess, type PipelineCommand, type PipelineProcess } from './pipeline-process.ts';
import { startWorkload, type RunningWorkload } from './workload-sessions.ts';

export class DrillFailed extends Error {}

export interface RunResult {
  readonly transactions: number;
  readonly rows: number;
  readonly tables: number;
  readonly seconds: number;
}

export interface RunOptions {
  readonly servers: DrillServers;
  readonly program: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly tell: (line: string) => void;
  readonly signal: AbortSignal;
}

const END_MS = 10_000;
/** The process keeps the time by its own clock; a machine that the faults keep busy may tell of its end later. */
const END_SLACK_MS = 20_000;
const START_MS = 8_000;
/** A rewrite by DDL sends no event: the reader notices it on its heartbeat, every 10 s, once it is up. */
const HEARTBEAT_MS = 60_000;
const CATCH_UP_MS = 400_000;
const COMMAND_MS = 300_000;

export async function runFaults(plan: FaultPlan, options: RunOptions): Promise<RunResult> {
  const started = performance.now();
  const name = `f${plan.seed}`;
  const place = await options.servers.openRun(plan, name);
  mkdirSync(options.folder, { recursive: true });
  const port = await freePort();
  const command: PipelineCommand = {
    program: options.program,
    cwd: options.folder,
    env: { ...options.env, ...place.env, PGURL: place.url },
  };
  writeFileSync(join(options.folder, 'sluice.yaml'), configText(plan, name, place, port));
  const roles: readonly string[] = plan.halves ? ['reader', 'stream'] : ['run'];
  // The stream half answers for the tables, the reader for the slot; each has a port of its own.
  const readerPort = plan.halves ? await freePort() : port;
  const portOf = (role: string): string => String(role === 'reader' ? readerPort : port);
  const children = new Map<string, PipelineProcess>();
  const others: PipelineProcess[] = [];
  let workload: RunningWorkload | null = null;
  let lastRole = 0;

  const start = (role: string, extra: Readonly<Record<string, string>> = {}): void => {
    children.set(role, startProcess(command, role, { SLUICE_HTTP_PORT: portOf(role), ...extra }));
  };
  const child = (role: string): PipelineProcess => {
    const found = children.get(role);
    if (found === undefined) throw new DrillFailed(`${role} was never started`);
    return found;
  };
  /** The next process in turn, so that both halves get their share. */
  const target = (): string => roles[(lastRole += 1) % roles.length] ?? 'run';
  /** A process that ended by itself as one may (a server was down): started again, as a supervisor would. */
  const revive = async (): Promise<void> => {
    for (const role of roles) {
      const process = child(role);
      if (process.running) continue;
      const { code, signal } = await process.ended;
      if (code !== 3 && signal !== 'SIGKILL') {
        throw new DrillFailed(`${role} ended by itself with ${code ?? signal}:\n${process.tail()}`);
      }
      start(role);
    }
  };
  const kill = async (role: string): Promise<void> => {
    child(role).signal('SIGKILL');
    await child(role).ended;
  };
  /** Waits until it answers, or has had time enough: a process that was begun a moment ago does not listen to signals yet. */
  const answers = async (role: string): Promise<boolean> => {
    for (let waited = 0; waited < START_MS && child(role).running; waited += 200) {
      const answer = await fetch(`http://127.0.0.1:${portOf(role)}/livez`).catch(() => null);
      if (answer !== null) return true;
      await sleep(200);
    }
    return false;
  };
  const end = async (role: string): Promise<void> => {
    const process = child(role);
    const listens = await answers(role);
    if (!process.running) return;
    process.signal('SIGTERM');
    const done = await Promise.race([process.ended, sleep(END_MS + END_SLACK_MS, null, { ref: false })]);
    if (done === null)
      throw new DrillFailed(`${role} did not end within ${END_MS / 1000} s of SIGTERM:\n${process.tail()}`);
    if (done.code !== 0 && listens)
      throw new DrillFailed(`${role} ended with ${done.code ?? done.signal} after SIGTERM:\n${process.tail()}`);
  };

  async function strike(fault: Fault): Promise<void> {
    const role = target();
    switch (fault.kind) {
      case 'kill':
        await kill(role);
        return start(role);
      case 'kill-at': {
        await kill(role);
        start(role, { SLUICE_FAILPOINT: `${fault.point}:${fault.passage}` });
        return;
      }
      case 'end':
        await answers(role);
        await end(role);
        return start(role);
      case 'freeze':
        child(role).signal('SIGSTOP');
        await sleep(fault.ms);
        child(role).signal('SIGCONT');
        return;
      case 'take-over': {
        child(role).signal('SIGSTOP');
        const second = startProcess(command, role, { SLUICE_HTTP_PORT: '0' });
        others.push(second);
        await sleep(fault.ms);
        child(role).signal('SIGCONT');
        await sleep(500);
        second.signal('SIGKILL');
        await second.ended;
        return;
      }
      case 'lying-store':
        await kill(role);
        return start(role, { SLUICE_FAULT_STORE: String(fault.seed) });
      case 'kill-server':
        return options.servers.kill(fault.server, fault.downMs);
      case 'restart-postgres':
        return options.servers.restartPostgres(fault.downMs);
      case 'cut-sessions':
        return place.cutSessions();
      case 'lose-state':
        for (const each of roles) await kill(each);
        loseState(options.folder);
        for (const each of roles) start(each);
        return;
      case 'lose-checkpoint':
        for (const each of roles) await kill(each);
        await place.removeFromLake('_sluice/checkpoints/');
        for (const each of roles) start(each);
        return;
      case 'command':
        return beside(fault.command);
    }
  }

  /** A command may find no service, or a table that is not there yet; it must neither hang nor break the pipeline. */
  async function beside(what: 'optimize' | 'checkpoint' | 'backfill' | 'verify'): Promise<void> {
    const args =
      what === 'backfill'
        ? ['backfill', 'wide', '--url', `http://127.0.0.1:${readerPort}`]
        : what === 'verify'
          ? ['verify', '--tables', 'public.pair']
          : ['table', what, 'public.wide'];
    const env = { ...command.env, SLUICE_HTTP_PORT: String(port) };
    const done = await runCommand({ ...command, env }, args, COMMAND_MS);
    if (done === null) throw new DrillFailed(`sluice ${args.join(' ')} did not end`);
    if (/INTERNAL|TypeError|RangeError|SLU-1015/.test(done.err))
      throw new DrillFailed(`sluice ${args.join(' ')}: ${done.err}`);
  }

  try {
    await place.query(FAULT_SCHEMA_SQL);
    if (plan.rows > 0) await place.query(loadSql(plan.rows));
    workload = startWorkload(place.url, plan.seed, (why) => options.tell(`  workload: ${why}`));
    for (const role of roles) start(role);
    for (const { afterMs, fault } of plan.faults) {
      await sleep(afterMs);
      options.signal.throwIfAborted();
      await revive();
      await strike(fault);
    }
    await sleep(500);
    const { transactions } = await workload.stop();
    workload = null;
    // Calm: started again without faults, it must get there by itself.
    for (const role of roles) {
      await kill(role);
      start(role);
    }
    const compared = await compare();
    for (const role of roles) await end(role);
    await place.expectNoEventTwice();
    await tearDown(command, (sql) => place.query(sql));
    return { transactions, ...compared, seconds: (performance.now() - started) / 1000 };
  } catch (error) {
    if (error instanceof DrillFailed || options.signal.aborted) throw error;
    throw new DrillFailed(
      `${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n${[...children.values()].map((each) => each.tail()).join('\n')}`,
    );
  } finally {
    await workload?.stop().catch(() => undefined);
    for (const process of [...children.values(), ...others]) {
      if (!process.running) continue;
      process.signal('SIGKILL');
      await process.ended;
    }
    await place.close();
  }

  async function compare(): Promise<{ rows: number; tables: number }> {
    const calmSince = Date.now();
    const deadline = calmSince + CATCH_UP_MS;
    const verifyEnv = { ...command, env: { ...command.env, SLUICE_HTTP_PORT: String(port) } };
    for (;;) {
      options.signal.throwIfAborted();
      await revive();
      const noticed = Date.now() - calmSince > HEARTBEAT_MS;
      const done = await runCommand(verifyEnv, ['verify', '--json'], COMMAND_MS);
      const report = parseReport(done?.out ?? '');
      const wanted = await place.tables();
      if (report !== null) {
        const missing = wanted.filter(({ table }) => !report.tables.some((each) => each.table === table));
        if (report.equal && missing.length === 0) {
          for (const { table, rows } of wanted) {
            const found = report.tables.find((each) => each.table === table);
            if (found?.sourceRows !== rows || found.parkedKeys > 0)
              throw new DrillFailed(
                `${table}: ${rows} rows at the source, verify saw ${found?.sourceRows}; ${found?.parkedKeys} keys in quarantine`,
              );
          }
          return { rows: wanted.reduce((sum, { rows }) => sum + rows, 0), tables: wanted.length };
        }
        const differs = report.tables.filter(({ equal }) => !equal);
        if (differs.length > 0 && noticed)
          throw new DrillFailed(`not equal: ${JSON.stringify(differs).slice(0, 4_000)}\n${tails()}`);
        if (Date.now() > deadline)
          throw new DrillFailed(
            `not compared: ${JSON.stringify(report.notCompared)}; missing: ${JSON.stringify(missing)}\n${tails()}`,
          );
      } else if (Date.now() > deadline) {
        throw new DrillFailed(`it does not catch up: ${done?.err ?? 'verify does not end'}\n${tails()}`);
      }
      await sleep(500);
    }
  }

  function tails(): string {
    return [...children.values()].map((each) => `${each.role}:\n${each.tail()}`).join('\n');
  }
}

interface Report {
  readonly equal: boolean;
  readonly tables: readonly {
    readonly table: string;
    readonly equal: boolean;
    readonly sourceRows: number;
    readonly parkedKeys: number;
  }[];
  readonly notCompared: unknown;
}

function parseReport(text: string): Report | null {
  try {
    return JSON.parse(text) as Report;
  } catch {
    return null;
  }
}

/** Of the embedded log's own folder nothing goes: it is data. */
function loseState(folder: string): void {
  const state = join(folder, '.sluice');
  let entries: string[] = [];
  try {
    entries = readdirSync(state);
  } catch {
    return; // nothing was started yet
  }
  for (const entry of entries) if (entry !== 'log') rmSync(join(state, entry), { recursive: true, force: true });
}

async function tearDown(
  command: PipelineCommand,
  query: (sql: string) => Promise<readonly Record<string, string | null>[]>,
): Promise<void> {
  const done = await runCommand(command, ['teardown', '--yes'], COMMAND_MS);
  if (done?.code !== 0) throw new DrillFailed(`teardown: ${done?.err ?? 'does not end'}`);
  const left = await query('select slot_name from pg_replication_slots where database = current_database()');
  if (left.length > 0) throw new DrillFailed(`teardown left a slot: ${JSON.stringify(left)}`);
}

function configText(
  plan: FaultPlan,
  name: string,
  place: { readonly log: string; readonly lake: string },
  httpPort: number,
): string {
  return `name: ${name}
source:
  postgres: "\${PGURL}"
  tables: ["public.*"]
  snapshot: {chunkRows: ${plan.chunkRows}}
log: ${place.log}
lake: ${place.lake}
stream: {trigger: ${plan.triggerMs}ms, maxOffsetsPerTrigger: ${plan.maxOffsetsPerTrigger}}
http: {port: ${httpPort}}
logging: {level: warn}
`;
}
