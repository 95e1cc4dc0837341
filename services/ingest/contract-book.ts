/**
 * The contract that a table's batches are checked with: read from its file, generated from the source's shape on first sight
 * (and saved, so that it can be edited), kept by hash under `_sluice/contracts/` in the lake, so that a batch which runs
 * again is checked with the very text that its first run used.
 */
import { createHash } from 'node:crypto';
import type { CatalogTable } from '../../contracts/engine/catalog.ts';
import type { Gate } from '../../contracts/engine/gate.ts';
import type { Hasher } from '../../contracts/engine/privacy.ts';
import type { SourceConflict } from '../../contracts/engine/source-conflict.ts';
import type { Contract, TableContract } from '../../contracts/engine/model.ts';
import { contractFileName } from '../../contracts/engine/infer.ts';
import { getText } from '../../lakehouse/store/get-text.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import type { TableShape } from '../log/event.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { ContractFiles } from './contract-files.ts';
import type { LastContracts } from './last-contracts.ts';
import { buildTablePlan } from './table-plan.ts';
import type { TablePlan } from './table-plan.ts';

/** What the contract engine does for us; `contract-tools.ts` binds it. */
export interface ContractTools {
  infer(table: CatalogTable, pipeline: string): string;
  /** @throws an error that names file, line and column */
  parse(text: string, file: string): Contract;
  select(contract: Contract, live: CatalogTable): TableContract;
  compile(contract: Contract, live: CatalogTable): Gate;
  /** Where every row of the live table would break the contract. */
  conflicts(contract: Contract, table: TableContract, live: CatalogTable): readonly SourceConflict[];
  /** The text with the columns of `table` added that it lacks; everything a person wrote stays. */
  addColumns(text: string, file: string, table: CatalogTable): string;
}

export interface ContractBookOptions {
  readonly pipeline: string;
  readonly files: ContractFiles;
  readonly tools: ContractTools;
  /** The lake's root. */
  readonly store: ObjectStore;
  readonly hasher: Hasher | null;
  /** Absent: nothing is remembered, and a contract that is gone is generated anew. */
  readonly last?: LastContracts;
}

export interface ContractBook {
  /**
   * The plan of the contract as it stands now; `known` itself while nothing changed. `lake`: the table's present schema,
   * null when it does not exist yet.
   */
  current(shape: TableShape, lake: StructType | null, known: TablePlan | null): Promise<TablePlan>;
  /** The plan that an earlier run used; null when its text is lost. */
  byHash(hash: string, shape: TableShape, lake: StructType | null): Promise<TablePlan | null>;
  /**
   * The plan with a newer shape's columns, by the contract's `unknownColumns`. Pure: `keep` writes it down. `passing`: the
   * source has another shape by now, so that what conflicts with this one is judged row by row.
   */
  evolve(plan: TablePlan, shape: TableShape, lake: StructType | null, passing?: boolean): TablePlan;
  /** The table's contract is another one than its last plan was made of: a table that it stopped may go on. */
  changed(schema: string, table: string): Promise<boolean>;
  /** Makes the plan's text durable: in the lake by hash, and in the contracts folder where it grew by `evolve`. */
  keep(plan: TablePlan, shape: TableShape): Promise<void>;
}

const KEPT_FOLDER = '_sluice/contracts';

export function createContractBook(options: ContractBookOptions): ContractBook {
  const { files, tools, store, pipeline, hasher, last } = options;
  const kept = new Set<string>();
  /** Hash of the text that each table's last plan was made of. */
  const seen = new Map<string, string | null>();

  function planOf(text: string, file: string, shape: TableShape, lake: StructType | null): TablePlan {
    try {
      const contract = tools.parse(text, file);
      const live = catalogOf(shape);
      const table = tools.select(contract, live);
      const gate = tools.compile(contract, live);
      const identity = { id: contract.id, version: contract.version, hash: hashOf(text), text };
      return buildTablePlan({ table, contract: identity, gate, shape, lake, hasher });
    } catch (error) {
      if (error instanceof StreamError) throw error;
      throw new StreamError(
        'CONTRACT_FAILED',
        `the contract of ${shape.schema}.${shape.table} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
        `correct ${file} (\`contracts check\` shows every finding), then resume the table`,
        { cause: error },
      );
    }
  }

  /** A table whose every row would break the contract stands still, by name and with the edit; nothing of it is parked. */
  function refuseConflicts(text: string, file: string, shape: TableShape): void {
    const contract = tools.parse(text, file);
    const live = catalogOf(shape);
    const [first, ...more] = tools.conflicts(contract, tools.select(contract, live), live);
    if (first === undefined) return;
    const others = more.length === 0 ? '' : ` (also: ${more.map(({ column }) => column).join(', ')})`;
    throw new StreamError(
      'SCHEMA_CONFLICT',
      `table ${shape.schema}.${shape.table}: ${first.message}${others}`,
      `edit ${file}:${first.line}: ${first.edit}; the table then goes on by itself`,
    );
  }

  async function keepByHash(hash: string, text: string): Promise<void> {
    if (kept.has(hash)) return;
    try {
      await store.putIfAbsent(`${KEPT_FOLDER}/${hash}.odcs.yaml`, Buffer.from(text));
    } catch (error) {
      // Same name, same bytes: whether the lost answer was a success does not matter, an unconditional put settles it.
      if (!(error instanceof StoreError) || error.code !== 'STORE_OUTCOME_UNKNOWN') throw error;
      await store.put(`${KEPT_FOLDER}/${hash}.odcs.yaml`, Buffer.from(text));
    }
    kept.add(hash);
  }

  function evolve(plan: TablePlan, shape: TableShape, lake: StructType | null, passing = false): TablePlan {
    const file = `${shape.schema}.${shape.table}`;
    const known = new Set(plan.contractColumns);
    const added = shape.columns.filter(({ name }) => !known.has(name));
    if (!passing) refuseConflicts(plan.contract.text, contractFileName(shape), shape);
    if (added.length === 0) return { ...plan, shapeVersion: shape.version };
    switch (plan.unknownColumns) {
      case 'evolve': {
        const text = tools.addColumns(plan.contract.text, file, { ...catalogOf(shape), columns: shape.columns });
        return planOf(text, file, shape, lake);
      }
      case 'fail':
        throw new StreamError(
          'CONTRACT_FAILED',
          `table ${file}: the source has the columns ${added.map(({ name }) => name).join(', ')}, which the contract does not know`,
          'add them to the contract, or set unknownColumns to evolve, ignore or quarantine, then resume the table',
        );
      case 'ignore':
      case 'quarantine':
        // The gate sees the columns in the row and does what the policy says; the lake does not get them.
        return { ...plan, shapeVersion: shape.version };
    }
  }

  return {
    async current(shape, lake, known) {
      const found = await files.load(shape.schema, shape.table);
      seen.set(`${shape.schema}.${shape.table}`, found === null ? null : hashOf(found.text));
      if (known !== null && found !== null && hashOf(found.text) === known.contract.hash) {
        return known.shapeVersion === shape.version ? known : evolve(known, shape, lake);
      }
      if (found !== null) return evolve(planOf(found.text, found.file, { ...shape, version: 0 }, lake), shape, lake);
      const file = contractFileName(shape);
      const stood = known?.contract.text ?? (await last?.text(shape)) ?? null;
      if (stood === null) {
        const text = tools.infer(catalogOf(shape), pipeline);
        const plan = planOf(text, file, shape, lake);
        await files.save(shape.schema, shape.table, text);
        return plan;
      }
      // The file first: what stops the table names a line of it.
      await files.save(shape.schema, shape.table, stood);
      const plan = planOf(stood, file, { ...shape, version: 0 }, lake);
      last?.restored(plan, shape);
      return evolve(plan, shape, lake);
    },
    async byHash(hash, shape, lake) {
      const file = `${KEPT_FOLDER}/${hash}.odcs.yaml`;
      const text = await getText(store, file);
      return text === null ? null : planOf(text, file, shape, lake);
    },
    evolve,
    async changed(schema, table) {
      const found = await files.load(schema, table);
      return seen.get(`${schema}.${table}`) !== (found === null ? null : hashOf(found.text));
    },
    async keep(plan, shape) {
      await keepByHash(plan.contract.hash, plan.contract.text);
      await last?.keep(plan, shape);
      const standing = await files.load(shape.schema, shape.table);
      if (standing === null || hashOf(standing.text) === plan.contract.hash) return;
      // A person may have edited the file meanwhile: their text gets the new columns, not ours.
      const columns = { ...catalogOf(shape), columns: shape.columns };
      const text = tools.addColumns(standing.text, standing.file, columns);
      if (text !== standing.text) await files.save(shape.schema, shape.table, text);
    },
  };
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function catalogOf(shape: TableShape): CatalogTable {
  return { schema: shape.schema, table: shape.table, columns: shape.columns };
}
