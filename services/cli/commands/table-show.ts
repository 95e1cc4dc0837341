import { readHistory } from '../../../lakehouse/table/history.ts';
import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { readerFeatures, writerFeatures } from '../../../lakehouse/table/protocol.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { parseStats } from '../../../lakehouse/table/stats-read.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatBytes, formatTime } from '../print-columns.ts';
import { openTablePlace, openToRead, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

/** `sluice table show`: what the table is at a version. */
export const showCommand: CommandModule = (table, context) => {
  tableCommand(table, 'show', 'version, size, protocol and properties')
    .option('--at <version|time>', 'an older version')
    .action(
      context.run(async (name: string, options: TableOptions & { readonly at?: string }) => {
        const store = openTablePlace(context, name, options);
        const snapshot = await openToRead(context, store, options.at);
        const shown = describe(snapshot, await committedAt(snapshot));
        context.out(options.json === true ? `${stringifyLossless(shown)}\n` : lines(shown));
        return ExitCode.clean;
      }),
    );
};

/** As the history has it; where the commit itself was cleaned up, as near as the log still says. */
async function committedAt({ store, version, committedAtMs }: Snapshot): Promise<number> {
  for await (const entry of readHistory(store, { before: version + 1n }))
    return entry.version === version ? entry.timestampMs : committedAtMs;
  return committedAtMs;
}

function describe(snapshot: Snapshot, timestampMs: number): Readonly<Record<string, unknown>> {
  const rows = liveRows(snapshot);
  return {
    table: snapshot.store.uri,
    id: snapshot.metadata.id,
    version: snapshot.version,
    committedAt: formatTime(timestampMs),
    rows: rows.live,
    rowsUnderVectors: rows.hidden,
    files: snapshot.files.count,
    bytes: snapshot.files.sizeBytes,
    partitionColumns: snapshot.metadata.partitionColumns,
    checkpoint: snapshot.checkpointVersion,
    minReaderVersion: snapshot.protocol.minReaderVersion,
    minWriterVersion: snapshot.protocol.minWriterVersion,
    readerFeatures: readerFeatures(snapshot.protocol),
    writerFeatures: writerFeatures(snapshot.protocol),
    properties: snapshot.metadata.configuration,
    transactions: Object.fromEntries([...snapshot.txns.values()].map(({ appId, version }) => [appId, version])),
  };
}

/** From the log alone; null where a file does not say how many rows it has. */
function liveRows(snapshot: Snapshot): { readonly live: bigint | null; readonly hidden: bigint } {
  let live: bigint | null = 0n;
  let hidden = 0n;
  for (const file of snapshot.files) {
    const gone = file.deletionVector?.cardinality ?? 0n;
    const all = parseStats(file.stats)?.rowCount ?? null;
    hidden += gone;
    live = live === null || all === null ? null : live + all - gone;
  }
  return { live, hidden };
}

function lines(shown: Readonly<Record<string, unknown>>): string {
  return Object.entries(shown)
    .map(([name, value]) => {
      const text =
        name === 'bytes' && typeof value === 'bigint'
          ? `${value} (${formatBytes(value)})`
          : typeof value === 'string'
            ? value
            : value === null
              ? name === 'checkpoint'
                ? 'none'
                : 'unknown'
              : stringifyLossless(value);
      return `${name.padEnd(18)}${text}\n`;
    })
    .join('');
}
