/** What a reader shows of itself. Pure over the run's parts. */
import type { Lsn } from '../log/position.ts';
import type { ReaderOptions, ReaderStatus, TableStatus } from './reader-options.ts';
import type { ReaderShared } from './reader.ts';
import { remainingChunks, TID_BLOCK } from './snapshot-ranges.ts';
import type { TableRoute } from './table-route.ts';

const ZERO = 0n as Lsn;

export function readerStatus(shared: ReaderShared, options: ReaderOptions): ReaderStatus {
  const { run, monitor } = shared;
  const position = run?.appender.position;
  const figures = monitor?.figures;
  const durable = position?.confirmLsn ?? ZERO;
  const source = figures?.sourceLsn ?? ZERO;
  const behind = source > durable;
  const lagMicros =
    behind && figures !== undefined && position !== undefined
      ? figures.sourceTimeMicros - position.sourceTimeMicros
      : 0n;
  return {
    phase: shared.phase,
    stopped: shared.stopped,
    epoch: position?.epoch ?? 0,
    serverVersion: shared.serverVersion,
    sourceLsn: source,
    receivedLsn: run?.pump.received ?? ZERO,
    durableLsn: durable,
    confirmedLsn: (run?.acker.confirmed ?? 0n) as Lsn,
    lagMs: lagMicros > 0n ? Number(lagMicros / 1000n) : 0,
    lagBytes: behind ? source - durable : 0n,
    bytes: position?.bytes ?? 0n,
    marks: position?.sequence ?? 0,
    tables: [...(run?.registry.routes() ?? []).map((route) => tableStatus(shared, route)), ...refused(shared)],
    announced: [...(run?.registry.announced ?? [])],
    insurance: figures?.insurance ?? null,
    lastError: shared.lastError,
    failing:
      position !== undefined && shared.phase === 'streaming' && position.sequence > shared.openedAt
        ? null
        : shared.failing,
  };

  function tableStatus(from: ReaderShared, route: TableRoute): TableStatus {
    const { schema, table, state, events, snapshotRows } = route;
    const reason = from.run?.registry.reasons.get(route) ?? null;
    const snapshotProgress = state.phase === 'snapshotting' ? progressOf(route) : null;
    return { schema, table, phase: state.phase, reason, events, snapshotRows, snapshotProgress };
  }

  function refused(from: ReaderShared): readonly TableStatus[] {
    return (from.run?.attachment.selected.refused ?? []).map(({ schema, table, error }) => ({
      schema,
      table,
      phase: 'refused' as const,
      reason: { state: error.code, detail: error.message, remedy: error.remedy },
      events: 0n,
      snapshotRows: 0n,
      snapshotProgress: null,
    }));
  }

  /** Share of the blocks known at the start; an open-ended last range counts as nothing until it is done. */
  function progressOf(route: TableRoute): number {
    const table = run?.attachment.selected.taken.find(
      (each) => each.schema === route.schema && each.table === route.table,
    );
    const heaps = table?.heaps ?? [];
    let total = 0;
    let left = 0;
    for (const heap of heaps) {
      const done =
        route.state.heaps.find((each) => each.schema === heap.schema && each.table === heap.table)?.done ?? [];
      total += heap.blocks;
      for (const range of remainingChunks(done, heap.blocks, heap.blocks + 1)) {
        const to = Math.min(range.to === null ? heap.blocks : range.to / TID_BLOCK, heap.blocks);
        left += Math.max(0, to - range.from / TID_BLOCK);
      }
    }
    if (options.tables.length === 0 || total === 0) return 0;
    return Math.min(1, Math.max(0, 1 - left / total));
  }
}
