/** A pipeline in a folder of its own, driven as a person does: its service started and stopped, its commands run beside it. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { runSluice, startSluice, type SluiceProcess } from './sluice-process.ts';
import { waitFor } from './wait-for.ts';

export interface Answer {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
  /** Of an answer that is one JSON object; else empty. */
  readonly json: Record<string, unknown>;
}

export interface Line {
  readonly table: string;
  readonly state: string;
  readonly why: string | null;
  readonly remedy: string | null;
  readonly version: string | null;
  readonly committedLsn: string | null;
}

export interface Status {
  readonly reader: {
    readonly phase: string;
    readonly stopped: { readonly state: string; readonly detail: string; readonly remedy: string } | null;
    readonly trouble: { readonly state: string } | null;
    readonly announced: readonly string[];
  } | null;
  readonly stream: { readonly trouble: { readonly state: string } | null } | null;
  readonly tables: readonly Line[];
}

export interface SluiceService {
  /** Where the commands and the service run: the pipeline may be moved. */
  folder: string;
  readonly port: number;
  /** Of the commands and the service; may be changed. */
  readonly env: Record<string, string>;
  sluice(...args: string[]): Promise<Answer>;
  /** Writes the configuration anew; the port and the log level are added to it. */
  configure(yaml: string): void;
  /** Starts `sluice run` and waits until it answers. */
  start(env?: Readonly<Record<string, string>>): Promise<void>;
  /** SIGTERM; it must end with 0. Nothing where none runs. */
  stop(): Promise<void>;
  /** The running process; null where none runs. */
  process(): SluiceProcess | null;
  /** Does the work while the service runs. */
  serve<T>(work: () => Promise<T>): Promise<T>;
  /** What the service says of itself, without a process for each question; null while none answers. */
  status(): Promise<Status | null>;
  /** Of `public.TABLE`. */
  lineOf(table: string): Promise<Line | undefined>;
  stateOf(table: string): Promise<string | undefined>;
  metrics(): Promise<string>;
  /** Whether `sluice verify` finds these tables (none named: all) equal, by the rows themselves. */
  equal(...tables: string[]): Promise<boolean>;
  /** These tables (none named: all) must be equal by one `sluice verify`; it waits for the lake. */
  expectEqual(...tables: string[]): Promise<void>;
  /** `sluice run --available-now` must end with 0. */
  caughtUp(): Promise<void>;
  contract(table: string): string;
  writeContract(table: string, text: string): void;
}

export async function createService(
  folder: string,
  yaml: string,
  env: Readonly<Record<string, string>>,
): Promise<SluiceService> {
  const port = await freePort();
  const own = { ...env };
  const options = () => ({ cwd: service.folder, env: own });
  mkdirSync(join(folder, 'contracts'), { recursive: true });
  let running: SluiceProcess | null = null;
  const contractFile = (table: string): string => join(service.folder, `contracts/public.${table}.odcs.yaml`);
  const service: SluiceService = {
    folder,
    port,
    env: own,
    async sluice(...args) {
      const done = await runSluice(args, options());
      return { ...done, json: /^\s*\{/.test(done.out) ? parsed(done.out) : {} };
    },
    configure(text) {
      writeFileSync(
        join(service.folder, 'sluice.yaml'),
        `${text.trim()}\nhttp: {port: ${port}}\nlogging: {level: error}\n`,
      );
    },
    async start(more = {}) {
      const started = startSluice(['run'], { cwd: service.folder, env: { ...own, ...more } });
      running = started;
      await waitFor('the service', async () => {
        if (started.child.exitCode !== null) throw new Error((await started.ended).err);
        return (await service.status()) !== null;
      });
    },
    async stop() {
      const stopping = running;
      running = null;
      stopping?.kill('SIGTERM');
      const ended = await stopping?.ended;
      if (ended !== undefined) expect(ended.code, ended.err).toBe(0);
    },
    process: () => running,
    async serve(work) {
      await service.start();
      try {
        return await work();
      } finally {
        await service.stop();
      }
    },
    async status() {
      try {
        return (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as Status;
      } catch {
        return null;
      }
    },
    async lineOf(table) {
      return (await service.status())?.tables.find((line) => line.table === `public.${table}`);
    },
    stateOf: async (table) => (await service.lineOf(table))?.state,
    metrics: async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
    async equal(...tables) {
      return (await service.sluice('verify', '--json', ...only(tables))).json['equal'] === true;
    },
    async expectEqual(...tables) {
      const { code, out, err } = await service.sluice('verify', ...only(tables));
      expect(code, out + err).toBe(0);
    },
    async caughtUp() {
      const { code, err } = await service.sluice('run', '--available-now');
      expect(code, err).toBe(0);
    },
    contract: (table) => readFileSync(contractFile(table), 'utf8'),
    writeContract: (table, text) => writeFileSync(contractFile(table), text),
  };
  service.configure(yaml);
  return service;
}

const only = (tables: readonly string[]): string[] =>
  tables.length === 0 ? [] : ['--tables', tables.map((table) => `public.${table}`).join(',')];

/** Several objects, a line each, are no answer of one. */
function parsed(out: string): Record<string, unknown> {
  try {
    return JSON.parse(out) as Record<string, unknown>;
  } catch {
    return {};
  }
}
