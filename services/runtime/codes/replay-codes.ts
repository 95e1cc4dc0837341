/** Codes of `sluice replay`. A number is never given to another meaning, and none is taken away. */
import { ExitCode } from '../errors.ts';
import type { CodeEntry } from './code-entry.ts';

export const REPLAY_CODES = {
  REPLAY_RANGE_GONE: {
    code: 'SLU-7201',
    title: 'the log no longer holds what the replay needs',
    exit: ExitCode.namedState,
    retry: false,
    remedy: '`sluice backfill TABLE` reads the table whole into the log; a replay from the beginning then begins there',
  },
  REPLAY_RUNNING: {
    code: 'SLU-7202',
    title: 'a replay of this table is running',
    exit: ExitCode.findings,
    retry: true,
    remedy: 'wait for it, or end it with `sluice replay TABLE --cancel`',
  },
  REPLAY_TARGET_TAKEN: {
    code: 'SLU-7203',
    title: 'another table stands where the replay would build one',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'choose another name for --into, or give that one up with `sluice replay --discard --into NAME`',
  },
  REPLAY_NOT_READY: {
    code: 'SLU-7204',
    title: 'the table cannot be switched as it is',
    exit: ExitCode.findings,
    retry: false,
    remedy: 'do what the message names, then give the command again',
  },
  REPLAY_LOST: {
    code: 'SLU-7205',
    title: 'the service that ran the replay was started again',
    exit: ExitCode.findings,
    retry: false,
    remedy: 'give the command again: it goes on where it was',
  },
} as const satisfies Readonly<Record<string, CodeEntry>>;
