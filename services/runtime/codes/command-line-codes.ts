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
  OTHER_HALF: {
    code: 'SLU-1008',
    title: 'the service that answered is not the half that is needed',
    exit: ExitCode.environment,
    retry: false,
    remedy: 'name the endpoint of the other half with --url',
  },
  SOURCE_TABLE_MISSING: {
    code: 'SLU-1009',
    title: 'the source has no such table',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'name a table as `sluice status` lists it',
  },
  BACKFILL_RUNNING: {
    code: 'SLU-1010',
    title: 'a backfill of this table is running',
    exit: ExitCode.findings,
    retry: true,
    remedy: 'wait for it, or cancel it',
  },
  NO_BACKFILL: {
    code: 'SLU-1011',
    title: 'no backfill of this table is running',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'see `sluice status`',
  },
  BACKFILL_WHOLE: {
    code: 'SLU-1012',
    title: 'a whole read of a table cannot be cancelled',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'wait until it is at its end',
  },
  BACKFILL_LOST: {
    code: 'SLU-1013',
    title: 'the service that ran the backfill was started again',
    exit: ExitCode.findings,
    retry: true,
    remedy: 'see `sluice status`: a whole read goes on by itself, any other is given again',
  },
  CONTROL_DENIED: {
    code: 'SLU-1014',
    title: 'the service does not take this command',
    exit: ExitCode.usage,
    retry: false,
    remedy: 'set http.token for the service and for this command',
  },
} as const satisfies Readonly<Record<string, CodeEntry>>;
