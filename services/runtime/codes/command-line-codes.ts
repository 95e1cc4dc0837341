/** Codes of the command line and the pipeline as a whole. A number is never given to another meaning, and none is taken away. */
import { ExitCode } from '../errors.ts';
import type { CodeEntry } from './code-entry.ts';

export const COMMAND_CODES = {
  CONFIG: {
    code: 'SLU-1001',
    title: 'the configuration or an option cannot be used',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'correct the key or option that the message names',
  },
  PIPELINE_CHANGED: {
    code: 'SLU-1002',
    title: 'the lake is kept by another pipeline',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'use another lake.uri, or tear the old pipeline down first',
  },
  LAKE_BEHIND: {
    code: 'SLU-1003',
    title: 'the lake does not reach the LSN that was asked for',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'start `sluice run` beside the command and look at `sluice status`',
  },
  SERVICE_UNREACHABLE: {
    code: 'SLU-1004',
    title: 'no sluice service answers at that address',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'start it with `sluice run`, or name its endpoint with --url',
  },
  CONNECTION_FAILED: {
    code: 'SLU-1005',
    title: 'a host did not answer',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'check host, port and network',
  },
  PORT_IN_USE: {
    code: 'SLU-1006',
    title: 'the listen port is taken',
    exit: ExitCode.environment,
    retry: false,
    remedy: 'set http.port to a free port, or 0 for any',
  },
  FORMAT_NEWER: {
    code: 'SLU-1007',
    title: 'a newer sluice wrote this',
    exit: ExitCode.namedState,
    retry: false,
    remedy: 'upgrade this sluice to the version that wrote it',
  },
} as const satisfies Readonly<Record<string, CodeEntry>>;
