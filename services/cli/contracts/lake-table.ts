/** A Delta table as the `contracts` command reads it: schema, rows, statistics, SQL. */
import { CommandError, EXIT, usageError } from '../../../contracts/cli/exit-code.ts';
import { sourceNameOf } from '../../../contracts/cli/lake-drift.ts';
import type { LakeSession, LakeTable } from '../../../contracts/cli/ports.ts';
import type { GateRow } from '../../../contracts/engine/gate.ts';
import { keyColumns } from '../../../contracts/engine/model.ts';
import { parseContract } from '../../../contracts/engine/parse.ts';
import { sourceName } from '../../../contracts/engine/source-name.ts';
import { scan } from '../../../lakehouse/read/scan.ts';
import type { Condition } from '../../../lakehouse/read/skip-files.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { ColumnBatch, ColumnVector } from '../../../lakehouse/table/column.ts';
import type { StructField } from '../../../lakehouse/table/schema.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { TableError } from '../../../lakehouse/table/table-error.ts';
import { createLastContracts } from '../../ingest/last-contracts.ts';
import { COMMITTED_AT } from '../../ingest/table-plan.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { explainFailure } from '../explain-failure.ts';
import { openTable } from '../verify-tables.ts';
import { cellReader } from './lake-cells.ts';
import type { CellReader } from './lake-cells.ts';
import { lakeProbe } from './lake-probe.ts';

/** `redact` takes credentials out of messages. */
export function openLakeSession(
  lake: ObjectStore,
  nowMicros: () => bigint,
  redact: (text: string) => string,
): LakeSession {
  const snapshotOf = (schema: string, table: string): Promise<Snapshot | null> =>
    readable(redact, () => openTable(lake, tableFolder(schema, table)));
  return {
    async table(schema, table): Promise<LakeTable | null> {
      const snapshot = await snapshotOf(schema, table);
      if (snapshot === null) return null;
      const own = { schema, table, snapshot };
      return {
        place: snapshot.store.uri,
        version: snapshot.version,
        fields: snapshot.schema.fields,
        keys: () => readable(redact, () => keysOf(lake, own)),
        rows: (columns, since) => guardRows(lakeRows(snapshot, columns, since), redact),
        probe: (since) => {
          if (since !== null) requireCommitTime(snapshot);
          return lakeProbe(own, {
            sinceMicros: since,
            nowMicros: nowMicros(),
            other: (schemaName, name) => snapshotOf(schemaName, name),
            rows: (columns) => guardRows(lakeRows(snapshot, columns, since), redact),
            guard: (work) => readable(redact, work),
          });
        },
      };
    },
  };
}

/** A Delta table has no key of its own; the contract that its last batch went through has. */
async function keysOf(lake: ObjectStore, { schema, table }: { schema: string; table: string }): Promise<string[]> {
  const text = await createLastContracts({ store: lake, keyId: null, tell: null }).text({ schema, table });
  const described = text === null ? null : parseContract(text, `${schema}.${table}`).contract;
  const found = described?.tables.find((candidate) => {
    const name = sourceName(described, candidate);
    return name.schema === schema && name.table === table;
  });
  return found === undefined ? [] : keyColumns(found).map((column) => column.physicalName ?? column.name);
}

async function readable<T>(redact: (text: string) => string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw unreadable(error, redact);
  }
}

async function* guardRows<T>(rows: AsyncIterable<T>, redact: (text: string) => string): AsyncGenerator<T> {
  try {
    yield* rows;
  } catch (error) {
    throw unreadable(error, redact);
  }
}

function unreadable(error: unknown, redact: (text: string) => string): unknown {
  if (error instanceof CommandError) return error;
  const failure = explainFailure(error);
  const known = error instanceof TableError || failure.exit !== EXIT.findings || isStoreError(error);
  if (!known) return error;
  return new CommandError('LAKE_UNREADABLE', EXIT.environment, redact(failure.message), failure.remedy, error);
}

const isStoreError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('STORE_');

function requireCommitTime(snapshot: Snapshot): void {
  if (!snapshot.schema.fields.some(({ name }) => name === COMMITTED_AT))
    throw usageError(
      `${snapshot.store.uri} does not say when its rows were committed: it has no column ${COMMITTED_AT}`,
      'leave out --since and --data for this table',
    );
}

/** Rows of reused batches; each row is a new object, since a caller may keep it. */
async function* lakeRows(
  snapshot: Snapshot,
  columns: readonly string[],
  sinceMicros: bigint | null,
): AsyncGenerator<readonly GateRow[]> {
  if (sinceMicros !== null) requireCommitTime(snapshot);
  const wanted = columns.flatMap((name) => {
    const field = snapshot.schema.fields.find((candidate) => sourceNameOf(candidate) === name);
    return field === undefined ? [] : [{ name, field }];
  });
  const where: Condition[] = sinceMicros === null ? [] : [{ path: [COMMITTED_AT], is: '>=', value: sinceMicros }];
  const read = [...new Set([...wanted.map(({ field }) => field.name), ...(where.length > 0 ? [COMMITTED_AT] : [])])];
  for await (const batch of scan(snapshot, { columns: read, where })) yield rowsOf(batch, wanted, sinceMicros);
}

function rowsOf(
  batch: ColumnBatch,
  wanted: readonly { readonly name: string; readonly field: StructField }[],
  sinceMicros: bigint | null,
): GateRow[] {
  const readers = wanted.flatMap(({ name, field }): { name: string; read: CellReader }[] => {
    const column = columnOf(batch, field.name);
    return column === null ? [] : [{ name, read: cellReader(column, field.type) }];
  });
  const committed = sinceMicros === null ? null : columnOf(batch, COMMITTED_AT);
  const times = committed?.kind === 'int64' ? committed.values : null;
  const rows: GateRow[] = [];
  for (let row = 0; row < batch.rowCount; row++) {
    if (sinceMicros !== null && times !== null && (times[row] ?? 0n) < sinceMicros) continue;
    const cells: GateRow = {};
    for (const { name, read } of readers) cells[name] = read(row);
    rows.push(cells);
  }
  return rows;
}

function columnOf(batch: ColumnBatch, name: string): ColumnVector | null {
  return batch.columns[batch.names.indexOf(name)] ?? null;
}
