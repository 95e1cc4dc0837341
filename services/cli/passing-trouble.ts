/**
 * Troubles that end by themselves once somebody has made room, or put the right secret in its place: nothing is stopped, the
 * work is tried again, and meanwhile `sluice status`, `/status` and the metrics say by name where it hangs.
 */
import { codeOf } from '../runtime/codes.ts';
import { ExitCode } from '../runtime/errors.ts';

export interface Trouble {
  /** `DISK_FULL(lake)` */
  readonly state: string;
  readonly detail: string;
  readonly remedy: string;
}

/** By the code of what failed. A read-only state folder is no full disk: only what names its place is told here. */
const PLACES: Readonly<Record<string, string>> = {
  STORE_DISK_FULL: 'DISK_FULL(lake)',
  LOG_DISK_FULL: 'DISK_FULL(log)',
  ENOSPC: 'DISK_FULL(state)',
  SOURCE_AUTHENTICATION: 'CREDENTIALS(source)',
  SOURCE_TLS: 'CREDENTIALS(source)',
  LOG_AUTHENTICATION: 'CREDENTIALS(log)',
  LOG_ACCESS_DENIED: 'CREDENTIALS(log)',
  STORE_ACCESS_DENIED: 'CREDENTIALS(lake)',
  OWNER_CONFLICT: 'OWNER_CONFLICT',
};

export function passingTrouble(code: string, detail: string): Trouble | null {
  const state = Object.hasOwn(PLACES, code) ? PLACES[code] : undefined;
  if (state === undefined) return null;
  return { state, detail, remedy: codeOf(state)?.entry.remedy ?? '' };
}

export function differenceFound(table: string, mismatches: number, atMs: number): Trouble {
  return {
    state: 'VERIFY_FAILED',
    detail: `source and lake differ in ${mismatches} rows, found at ${new Date(atMs).toISOString()}`,
    remedy: `sluice repair ${table}`,
  };
}

/** How `sluice status` ends on these: workers that hand a table over are no failure. */
export function troubleExit(states: readonly string[]): ExitCode {
  const exits = states
    .filter((state) => state !== 'OWNER_CONFLICT')
    .map((state) => codeOf(state)?.entry.exit ?? ExitCode.findings);
  return exits.includes(ExitCode.environment) ? ExitCode.environment : (exits[0] ?? ExitCode.clean);
}
