/**
 * Heavy work beside the main thread: sorting, merging, rewriting files. A thread is started for the first job, kept for the
 * next ones, and ended when it has been idle for a while, so that its memory goes back. It holds no state between jobs: one
 * that dies fails its jobs, and the next job starts a new one.
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker, type Transferable } from 'node:worker_threads';
import { fromForm, toForm } from './error-form.ts';
import type { Answer, FromThread, ToThread } from './thread-messages.ts';

export interface JobOptions {
  /** Buffers that move instead of being copied: of no use here afterwards. */
  readonly transfer?: readonly Transferable[];
  /** Answers what the job asks on its way (store calls). */
  readonly answer?: (what: unknown) => Promise<Answer>;
  /** Ends the thread, and with it every job in it. */
  readonly signal?: AbortSignal;
}

export interface Thread {
  /** @throws what the job threw; Error when the thread died */
  run(job: unknown, options?: JobOptions): Promise<unknown>;
}

export interface ThreadOptions {
  /** The module without its ending, beside `from`: `.ts` as it stands in the repository, `.js` as it is shipped. */
  readonly module: string;
  /** `import.meta.url` of the caller. */
  readonly from: string;
  /** Jobs at a time; the others wait. Default 1. */
  readonly jobsMax?: number;
  readonly idleMs?: number;
}

interface Pending {
  readonly job: unknown;
  readonly options: JobOptions;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const IDLE_MS = 10_000;

export function createThread(options: ThreadOptions): Thread {
  const jobsMax = options.jobsMax ?? 1;
  const waiting: Pending[] = [];
  const running = new Map<number, Pending>();
  let worker: Worker | null = null;
  let nextId = 0;
  let idle: NodeJS.Timeout | null = null;

  function end(error: Error): void {
    const dead = worker;
    worker = null;
    for (const job of running.values()) job.reject(error);
    running.clear();
    void dead?.terminate();
    pump();
  }

  function start(): Worker {
    const started = startWorker(options);
    started.on('message', (message: FromThread) => {
      if (worker === started) receive(started, message);
    });
    started.on('error', (error: unknown) => {
      if (worker === started) end(error instanceof Error ? error : new Error(String(error)));
    });
    started.on('exit', (code) => {
      if (worker === started) end(new Error(`a background thread ended with code ${code}`));
    });
    return started;
  }

  function receive(from: Worker, message: FromThread): void {
    const job = running.get(message.id);
    if (job === undefined) return;
    if (message.kind === 'ask') {
      void answer(from, job, message.question, message.what);
      return;
    }
    running.delete(message.id);
    if (message.kind === 'done') job.resolve(message.result);
    else job.reject(fromForm(message.error));
    pump();
  }

  async function answer(to: Worker, { options: given }: Pending, question: number, what: unknown): Promise<void> {
    let reply: ToThread;
    let transfer: readonly Transferable[] = [];
    try {
      if (given.answer === undefined) throw new RangeError('the job takes no questions');
      const answered = await given.answer(what);
      reply = { kind: 'answer', question, value: answered.value };
      transfer = answered.transfer ?? [];
    } catch (error) {
      reply = { kind: 'refusal', question, error: toForm(error) };
    }
    to.postMessage(reply, [...transfer]);
  }

  function pump(): void {
    if (idle !== null) clearTimeout(idle);
    idle = null;
    while (waiting.length > 0 && running.size < jobsMax) {
      const next = waiting.shift();
      if (next === undefined) break;
      if (next.options.signal?.aborted === true) {
        next.reject(next.options.signal.reason);
        continue;
      }
      const id = nextId++;
      running.set(id, next);
      worker ??= start();
      worker.ref();
      const message: ToThread = { kind: 'job', id, job: next.job };
      worker.postMessage(message, [...(next.options.transfer ?? [])]);
    }
    if (running.size > 0 || worker === null) return;
    // An idle thread keeps no process alive, and no memory for long.
    worker.unref();
    idle = setTimeout(() => {
      const spare = worker;
      worker = null;
      void spare?.terminate();
    }, options.idleMs ?? IDLE_MS);
    idle.unref();
  }

  return {
    run: (job, given = {}) =>
      new Promise((resolve, reject) => {
        const { signal } = given;
        const pending: Pending = { job, options: given, resolve: settle(resolve), reject: settle(reject) };
        function settle<T>(then: (value: T) => void): (value: T) => void {
          return (value) => {
            signal?.removeEventListener('abort', stop);
            then(value);
          };
        }
        function stop(): void {
          const reason: unknown = signal?.reason;
          if ([...running.values()].includes(pending)) end(reason instanceof Error ? reason : new Error('stopped'));
          else pending.reject(reason);
          const at = waiting.indexOf(pending);
          if (at >= 0) waiting.splice(at, 1);
        }
        signal?.addEventListener('abort', stop);
        waiting.push(pending);
        pump();
      }),
  };
}

/**
 * A thread's own objects are few, its columns lie outside of the heap: with the usual 16 MB of young objects a space, a thread
 * that has run for a while holds some 30 MB of nothing.
 */
const LIMITS = { maxYoungGenerationSizeMb: 12 };

function startWorker({ module, from }: ThreadOptions): Worker {
  if (!from.endsWith('.ts')) return new Worker(new URL(`${module}.js`, from), { resourceLimits: LIMITS });
  // Node 20 reads no TypeScript by itself: the loader that runs the repository's own sources goes first.
  const loader = pathToFileURL(
    createRequire(from)
      .resolve('tsx/esm/api')
      .replace(/\.cjs$/, '.mjs'),
  ).href;
  const source = new URL(`${module}.ts`, from).href;
  return new Worker(
    `import(${JSON.stringify(loader)}).then(({ register }) => { register(); return import(${JSON.stringify(source)}); })`,
    { eval: true, resourceLimits: LIMITS },
  );
}
