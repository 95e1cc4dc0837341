/** What a plan writes down beside its offsets: enough to run the batch again without the mark it was cut at. */
import type { Mark } from '../log/event.ts';
import { MARK_FORMAT } from '../log/event.ts';
import type { Lsn } from '../log/position.ts';
import type { TimelineMark } from '../stream/sources/mark-timeline.ts';

export function markConf(
  entry: TimelineMark,
  batch: { readonly contractHash: string; readonly schemaHash: string; readonly logId: string },
): Record<string, string> {
  const { mark, progressOffset } = entry;
  return {
    'sluice.mark': String(mark.sequence),
    'sluice.progress': String(progressOffset),
    'sluice.epoch': String(mark.epoch),
    'sluice.lsn': String(mark.lsn),
    'sluice.ord': String(mark.ord),
    'sluice.confirmLsn': String(mark.confirmLsn),
    'sluice.open': String(mark.open),
    'sluice.snapshotting': JSON.stringify(mark.snapshotting),
    'sluice.sourceTime': String(mark.sourceTimeMicros),
    'sluice.log': batch.logId,
    'sluice.contract': batch.contractHash,
    'sluice.schema': batch.schemaHash,
  };
}

export function markFromConf(conf: Readonly<Record<string, string>>, topic: string): Mark {
  const big = (name: string): bigint => BigInt(conf[name] ?? '0');
  return {
    formatVersion: MARK_FORMAT,
    sequence: Number(conf['sluice.mark'] ?? 0),
    epoch: Number(conf['sluice.epoch'] ?? 0),
    logId: conf['sluice.log'] ?? '',
    lsn: big('sluice.lsn') as Lsn,
    ord: Number(conf['sluice.ord'] ?? 0),
    confirmLsn: big('sluice.confirmLsn') as Lsn,
    open: conf['sluice.open'] === 'true',
    nextOffsets: { [topic]: {} },
    full: false,
    bytes: 0n,
    snapshotting: JSON.parse(conf['sluice.snapshotting'] ?? '[]') as string[],
    sourceTimeMicros: big('sluice.sourceTime'),
    atMs: 0,
  };
}
