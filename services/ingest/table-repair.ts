/** What a repair does with a table through its runner: look where it stands, where the log ends, and go on from there. */
import type { IngestHandle } from './ingest-options.ts';
import { retypeForContract } from './retype.ts';
import type { RetypeParts } from './retype.ts';
import type { TableRunner } from './table-runner.ts';

export function tableRepair(
  runnerOf: (id: string) => TableRunner | null,
  retypeParts: (id: string) => Omit<RetypeParts, 'dryRun'> | null,
): Pick<IngestHandle, 'logTail' | 'moveTo' | 'check' | 'retype'> {
  return {
    async retype(id, dryRun) {
      const parts = retypeParts(id);
      return (
        (await runnerOf(id)?.exclusive(async () => (parts === null ? [] : retypeForContract({ ...parts, dryRun })))) ??
        []
      );
    },
    async logTail(id) {
      return (await runnerOf(id)?.table.logTail()) ?? null;
    },
    async moveTo(id, tail) {
      const runner = runnerOf(id);
      if (runner === null) return;
      await runner.exclusive((table) => table.moveTo(tail));
      runner.goOn();
    },
    async check(id) {
      const runner = runnerOf(id);
      if (runner === null) return null;
      if (runner.stopped() === null)
        await runner.exclusive((table) => table.reopen()).catch((error: unknown) => runner.halt(error));
      return runner.stopped();
    },
  };
}
