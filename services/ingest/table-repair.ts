/** What a repair does with a table through its runner: look where it stands, where the log ends, and go on from there. */
import type { IngestHandle } from './ingest-options.ts';
import type { TableRunner } from './table-runner.ts';

export function tableRepair(
  runnerOf: (id: string) => TableRunner | null,
): Pick<IngestHandle, 'logTail' | 'moveTo' | 'check'> {
  return {
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
