/** The quarantine as it lies in the lake: read without the service, by every table of the pipeline. */
import { selectTable } from '../../contracts/engine/compile.ts';
import { holdsClassified } from '../../contracts/engine/model.ts';
import { didYouMean } from '../../contracts/engine/nearest.ts';
import { parseContract } from '../../contracts/engine/parse.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import {
  listQuarantine,
  type IsClassified,
  type ListOptions,
  type QuarantineEntry,
} from '../ingest/quarantine-list.ts';
import { scanQuarantine } from '../ingest/quarantine-scan.ts';
import { shapesOf } from '../ingest/foreign-topics.ts';
import { tableFolder } from '../ingest/table-target.ts';
import type { Config } from '../runtime/config.ts';
import { ConfigError } from '../runtime/errors.ts';
import { contractFolder } from '../ingest/contract-files.ts';
import { foreignTables } from './assemble/foreign-tables.ts';
import { openLake } from './assemble/lake.ts';
import { openLog } from './assemble/log.ts';
import { parseTableName } from './table-name.ts';
import { openTable } from './verify-tables.ts';

export interface ParkedRows {
  /** All tables that have a quarantine, or the one that is named; at most `limit` rows of each. */
  list(table: string | null, options: ListOptions): Promise<(QuarantineEntry & { readonly table: string })[]>;
  /** The row whose id begins so. @throws ConfigError when there is none, or more than one */
  find(prefix: string): Promise<{ readonly table: string; readonly id: string }>;
}

const ANY = new Set(['parked', 'healed', 'released', 'dropped'] as const);

/** Closed behind the work. */
export async function withParkedRows<T>(reload: () => Config, work: (rows: ParkedRows) => Promise<T>): Promise<T> {
  const config = reload();
  const lake = openLake(config);
  try {
    const log = await openLog(config, reload);
    try {
      const foreign = await foreignTables(config, contractFolder(config.contracts));
      const shapes = shapesOf(log.reader, config.name, foreign);
      await shapes.refresh();
      const names = shapes.tables().map(({ schema, table }) => ({ schema, table }));
      return await work({
        async list(only, options) {
          const wanted = only === null ? names : [parseTableName(only)];
          const found: (QuarantineEntry & { table: string })[] = [];
          for (const { schema, table } of wanted) {
            const snapshot = await quarantineOf(lake, schema, table);
            // One that was taken out of the pipeline may still have parked rows; any other name is a slip.
            if (snapshot === null && !names.some((known) => known.schema === schema && known.table === table))
              throw unknownTable(`${schema}.${table}`, names);
            for (const entry of await listQuarantine(
              snapshot,
              options,
              await classifiedNow(config.contracts, schema, table),
            ))
              found.push({ table: `${schema}.${table}`, ...entry });
          }
          return found;
        },
        async find(prefix) {
          const found: { table: string; id: string }[] = [];
          for (const { schema, table } of names) {
            const snapshot = await quarantineOf(lake, schema, table);
            if (snapshot === null) continue;
            for await (const { id } of scanQuarantine(snapshot, { statuses: ANY, withBytes: false }))
              if (id.startsWith(prefix)) found.push({ table: `${schema}.${table}`, id });
          }
          const [one, other] = found;
          if (one === undefined || prefix === '')
            throw new ConfigError(`no parked row has the id ${prefix}`, '`sluice quarantine list` shows the ids');
          if (other !== undefined)
            throw new ConfigError(
              `${found.length} parked rows have ids that begin with ${prefix}`,
              'give more of the id',
            );
          return one;
        },
      });
    } finally {
      await log.close();
    }
  } finally {
    await lake.close();
  }
}

function unknownTable(
  name: string,
  names: readonly { readonly schema: string; readonly table: string }[],
): ConfigError {
  const hint = didYouMean(
    name,
    names.map(({ schema, table }) => `${schema}.${table}`),
  );
  return new ConfigError(`the pipeline has no table ${name}`, hint ?? '`sluice status` shows its tables');
}

/** Without a contract that can be read nobody knows what is private. */
async function classifiedNow(folder: string, schema: string, table: string): Promise<IsClassified> {
  const text = await contractFolder(folder).load(schema, table);
  const contract = text === null ? null : parseContract(text.text, text.file).contract;
  if (contract === null) return () => true;
  const { columns } = selectTable(contract, { schema, table });
  return (name) => {
    const column = columns.find((candidate) => candidate.name === name);
    return column === undefined || holdsClassified(column);
  };
}

function quarantineOf(lake: ObjectStore, schema: string, table: string): Promise<Snapshot | null> {
  return openTable(lake, `${tableFolder(schema, table)}__quarantine`);
}
