/** Codes of the object store. A number is never given to another meaning, and none is taken away. */
import { ExitCode } from '../errors.ts';
import type { CodeEntry } from './code-entry.ts';

export const STORE_CODES = {
  STORE_NOT_FOUND: {
    code: 'SLU-4001',
    title: 'an object is gone',
    exit: ExitCode.findings,
    retry: false,
    remedy: 'the object is gone: run `sluice table fsck`',
  },
  STORE_CONTAINER_MISSING: {
    code: 'SLU-4002',
    title: 'the bucket does not exist',
    exit: ExitCode.environment,
    retry: false,
    remedy: 'create the bucket, or correct lake.uri',
  },
  STORE_ACCESS_DENIED: {
    code: 'SLU-4003',
    title: 'the store refuses these credentials, or its certificate is refused',
    exit: ExitCode.environment,
    retry: true,
    remedy:
      'give these credentials read, write, list and delete on lake.uri; renew a certificate that has expired, or name its CA in lake.s3.ssl.ca',
  },
  STORE_UNAVAILABLE: {
    code: 'SLU-4004',
    title: 'the store does not answer',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'check lake.s3.endpoint and the network, then try again',
  },
  STORE_THROTTLED: {
    code: 'SLU-4005',
    title: 'the store asks to slow down',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'the store asks to slow down: try again later',
  },
  STORE_OUTCOME_UNKNOWN: {
    code: 'SLU-4006',
    title: 'the store never said whether a write stands',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'the answer was lost; running again settles it',
  },
  STORE_CONDITION_IGNORED: {
    code: 'SLU-4007',
    title: 'the store ignores If-None-Match',
    exit: ExitCode.environment,
    retry: false,
    remedy: 'use a store that honours If-None-Match on PUT',
  },
  STORE_DISK_FULL: {
    code: 'SLU-4008',
    title: 'the disk under the lake is full',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'free space; work resumes by itself',
  },
  STORE_TRUNCATED: {
    code: 'SLU-4009',
    title: 'the store sent fewer bytes than it should',
    exit: ExitCode.environment,
    retry: true,
    remedy: 'try again; if it stays, run `sluice table fsck`',
  },
  STORE_BAD_URI: {
    code: 'SLU-4010',
    title: "the lake's URI cannot be used",
    exit: ExitCode.usage,
    retry: false,
    remedy: 'lake.uri is a path, file:///…, or s3://bucket/prefix',
  },
} as const satisfies Readonly<Record<string, CodeEntry>>;
