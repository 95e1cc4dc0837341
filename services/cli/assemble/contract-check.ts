/**
 * Contracts are read before anything starts, also where no row would ask for them: one that does not parse, or names a column
 * that neither the source nor the lake has, is said with its place in the file.
 */
import type { CatalogTable } from '../../../contracts/engine/catalog.ts';
import type { Finding } from '../../../contracts/engine/finding.ts';
import { selectTable } from '../../../contracts/engine/compile.ts';
import { lakeColumnName } from '../../../contracts/engine/lake-name.ts';
import { lintContract } from '../../../contracts/engine/lint.ts';
import { nearest } from '../../../contracts/engine/nearest.ts';
import { ContractError } from '../../../contracts/engine/parse.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import type { ContractFiles } from '../../ingest/contract-files.ts';
import { createShapeFeed } from '../../ingest/shape-feed.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import type { LogReader } from '../../log/log.ts';
import { listTables } from '../../reader/catalog.ts';
import { matchesGlobs } from '../../reader/table-globs.ts';
import { findPublication } from '../../reader/publication.ts';
import type { PostgresSource } from '../../reader/source.ts';
import type { Config } from '../../runtime/config.ts';
import { catalogTable } from '../contracts/live-catalog.ts';

/** A table by name, and its columns once they are asked for. */
interface Candidate {
  readonly schema: string;
  readonly table: string;
  readonly live: () => Promise<CatalogTable>;
}

/** Of the source's tables as they are now. @throws ContractError */
export async function checkAgainstSource(
  source: PostgresSource,
  config: Config,
  files: ContractFiles,
  lake: ObjectStore,
): Promise<void> {
  const session = await source.session('contracts');
  try {
    const publication = await findPublication(session, config.source.publication);
    const tables = (await listTables(session)).filter(({ schema, table }) =>
      matchesGlobs(config.source.tables, schema, table),
    );
    const candidates = tables.map((found) => ({
      schema: found.schema,
      table: found.table,
      live: () => catalogTable(session, found, publication),
    }));
    await checkContracts(candidates, files, lake);
  } finally {
    await session.close();
  }
}

/** Of the tables as the reader wrote their shapes into the log. @throws ContractError */
export async function checkAgainstLog(
  reader: LogReader,
  name: string,
  files: ContractFiles,
  lake: ObjectStore,
): Promise<void> {
  const shapes = createShapeFeed(reader, name);
  await shapes.refresh();
  const candidates = shapes
    .tables()
    .map((shape) => ({ schema: shape.schema, table: shape.table, live: () => Promise.resolve(shape) }));
  await checkContracts(candidates, files, lake);
}

async function checkContracts(tables: readonly Candidate[], files: ContractFiles, lake: ObjectStore): Promise<void> {
  const errors: Finding[] = [];
  for (const candidate of tables) {
    const found = await files.load(candidate.schema, candidate.table);
    if (found === null) continue;
    const { contract, findings } = lintContract(found.text, found.file);
    errors.push(...findings.filter(({ level }) => level === 'error'));
    if (contract === null) continue;
    const live = await candidate.live();
    const known = new Set(live.columns.map(({ name }) => name));
    const absent = selectTable(contract, live).columns.filter(({ name }) => !known.has(name));
    if (absent.length === 0) continue;
    // What the source dropped since stays in the lake, and may stay in the contract.
    const kept = await lakeColumns(lake, candidate);
    for (const column of absent) {
      if (kept.has(lakeColumnName(column.name).toLowerCase())) continue;
      const near = nearest(column.name, [...known]);
      errors.push({
        level: 'error',
        code: 'COLUMN_MISSING',
        message: `the table ${candidate.schema}.${candidate.table} has no column '${column.name}'`,
        file: found.file,
        ...contract.source.locate(column.path),
        subject: column.name,
        hint: near === null ? 'take it out, or add it at the source' : `did you mean '${near}'?`,
      });
    }
  }
  if (errors.length > 0) throw new ContractError(errors);
}

async function lakeColumns(lake: ObjectStore, { schema, table }: Candidate): Promise<ReadonlySet<string>> {
  const store = subStore(lake, tableFolder(schema, table));
  for await (const _ of store.list('_delta_log/')) {
    const snapshot = await openSnapshot(store);
    return new Set(snapshot.schema.fields.map(({ name }) => name.toLowerCase()));
  }
  return new Set();
}
