/**
 * Named places where a crash test may kill the process. Production code calls `hit(name)` through an injected function;
 * with SLUICE_FAILPOINT unset the function does nothing.
 */
export const FAILPOINTS = [
  'after-log-append',
  'before-slot-ack',
  'after-slot-ack',
  'during-snapshot-chunk',
  'after-offset-log-write',
  'after-data-files',
  'before-table-commit',
  'after-table-commit',
  'during-checkpoint',
  'before-quarantine-commit',
  'after-quarantine-commit',
] as const;
export type FailpointName = (typeof FAILPOINTS)[number];
export type FailpointHook = (name: string) => Promise<void> | void;

/** Kills the own process with SIGKILL at the n-th passage of a point: `SLUICE_FAILPOINT=before-table-commit:3`. */
export function failpointFromEnvironment(spec: string | undefined, kill: () => void): FailpointHook {
  if (spec === undefined || spec === '') return () => undefined;
  const [wanted, nth = '1'] = spec.split(':');
  let remaining = Number(nth);
  return (name) => {
    if (name !== wanted) return;
    remaining -= 1;
    if (remaining === 0) kill();
  };
}
