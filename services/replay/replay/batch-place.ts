/** Where a batch of a table stands in the log, as the table's own history tells it. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { readHistory } from '../../../lakehouse/table/history.ts';
import { TableError } from '../../../lakehouse/table/table-error.ts';
import type { LogOffset } from '../../log/position.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';

export interface BatchPlace {
  /** Sequence of the mark that the batch ended at. */
  readonly mark: number;
  /** Of the partitions that it read. */
  readonly from: ReadonlyMap<number, LogOffset>;
}

/** @throws ConfigError when there is no such batch yet; SluiceError REPLAY_RANGE_GONE when the history no longer has it */
export async function findBatch(store: ObjectStore, table: string, batch: bigint): Promise<BatchPlace> {
  let oldest: bigint | null = null;
  let newest: bigint | null = null;
  try {
    for await (const { commit } of readHistory(store)) {
      const parameters = (commit.commitInfo?.['operationParameters'] ?? {}) as Readonly<Record<string, unknown>>;
      const number = textOf(parameters['sluice.batch']);
      if (!/^\d+$/.test(number)) continue;
      oldest = BigInt(number);
      newest ??= oldest;
      if (oldest > batch) continue;
      if (oldest < batch) break;
      return {
        mark: Number(textOf(parameters['sluice.mark'])),
        from: rangesOf(textOf(parameters['sluice.offsets'])),
      };
    }
  } catch (error) {
    if (!(error instanceof TableError) || error.code !== 'TABLE_NOT_FOUND') throw error;
  }
  if (newest === null || batch > newest)
    throw new ConfigError(
      `${table} has no batch ${batch}${newest === null ? ' and none at all yet' : `: its newest is ${newest}`}`,
      '`sluice table history` lists them',
    );
  throw new SluiceError(
    'REPLAY_RANGE_GONE',
    `batch ${batch} of ${table} is no longer in the table's history, which begins with batch ${oldest ?? newest}`,
    {
      exit: ExitCode.namedState,
      remedy: 'name the position by lsn:…, by a time or by offset:… instead: the log may still hold it',
    },
  );
}

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '';

/** `0:10-20 1:5-9`, as the merge sink writes it. */
function rangesOf(text: string): Map<number, LogOffset> {
  const from = new Map<number, LogOffset>();
  for (const range of text.split(' ')) {
    const [, partition, start] = /^(\d+):(\d+)-\d+$/.exec(range) ?? [];
    if (partition !== undefined && start !== undefined) from.set(Number(partition), BigInt(start) as LogOffset);
  }
  return from;
}
