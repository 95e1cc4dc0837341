/** What passes between a thread and its owner: jobs and their results one way, questions and answers the other. */
import type { Transferable } from 'node:worker_threads';
import type { ErrorForm } from './error-form.ts';

/** A value to hand over, and which of its buffers move instead of being copied. */
export interface Answer {
  readonly value: unknown;
  readonly transfer?: readonly Transferable[];
}

export type ToThread =
  | { readonly kind: 'job'; readonly id: number; readonly job: unknown }
  | { readonly kind: 'answer'; readonly question: number; readonly value: unknown }
  | { readonly kind: 'refusal'; readonly question: number; readonly error: ErrorForm };

export type FromThread =
  | { readonly kind: 'done'; readonly id: number; readonly result: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly error: ErrorForm }
  | { readonly kind: 'ask'; readonly id: number; readonly question: number; readonly what: unknown };
