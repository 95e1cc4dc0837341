/** The thread's side: takes jobs from the owner, asks it on the way, and hands results back. */
import { constants, platform, setPriority } from 'node:os';
import { parentPort, type Transferable } from 'node:worker_threads';
import { fromForm, toForm } from './error-form.ts';
import type { Answer, FromThread, ToThread } from './thread-messages.ts';

/** Asks the thread's owner; its error is thrown here. */
export type Ask = (what: unknown) => Promise<unknown>;

export interface ServeOptions {
  /** The main thread waits for the results: no lower priority than its own. */
  readonly waitedFor?: boolean;
  /** Called when a job's result has been sent and its values are of no use any more. */
  readonly afterJob?: () => void;
}

export function serveJobs(work: (job: unknown, ask: Ask) => Promise<Answer>, options: ServeOptions = {}): void {
  const port = parentPort;
  if (port === null) throw new RangeError('this module runs in a thread of its own');
  // On Linux the nice value is a thread's own: what waits for the main thread goes before what runs beside it.
  if (platform() === 'linux' && options.waitedFor !== true) setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL);
  const questions = new Map<number, { resolve: (value: unknown) => void; reject: (error: unknown) => void }>();
  let nextQuestion = 0;
  const send = (message: FromThread, transfer: readonly Transferable[] = []): void =>
    port.postMessage(message, [...transfer]);

  async function perform(id: number, job: unknown): Promise<void> {
    const ask: Ask = (what) =>
      new Promise((resolve, reject) => {
        const question = nextQuestion++;
        questions.set(question, { resolve, reject });
        send({ kind: 'ask', id, question, what });
      });
    try {
      const { value, transfer } = await work(job, ask);
      send({ kind: 'done', id, result: value }, transfer);
    } catch (error) {
      send({ kind: 'failed', id, error: toForm(error) });
    }
  }

  async function take(id: number, job: unknown): Promise<void> {
    await perform(id, job);
    // In a turn of its own: nothing on the stack holds the job any more.
    if (options.afterJob !== undefined) setImmediate(options.afterJob);
  }

  port.on('message', (message: ToThread) => {
    if (message.kind === 'job') {
      void take(message.id, message.job);
      return;
    }
    const asked = questions.get(message.question);
    questions.delete(message.question);
    if (message.kind === 'answer') asked?.resolve(message.value);
    else asked?.reject(fromForm(message.error));
  });
}
