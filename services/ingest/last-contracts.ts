/**
 * Each table's last contract in the lake, beside the texts by hash: a generated contract knows no privacy and no rule, so where
 * the table had one, its file must not come back as that. With it stands the name of the key that its columns were hashed with.
 */
import { contractFileName } from '../../contracts/engine/infer.ts';
import { getText } from '../../lakehouse/store/get-text.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { TablePlan } from './table-plan.ts';

const FOLDER = '_sluice/contracts/last';

export interface TableNotice {
  readonly schema: string;
  readonly table: string;
  readonly message: string;
  readonly hint: string;
}

export interface LastContracts {
  /** Null where the table had none. */
  text(table: TableId): Promise<string | null>;
  keep(plan: TablePlan, table: TableId): Promise<void>;
  restored(plan: TablePlan, table: TableId): void;
}

interface TableId {
  readonly schema: string;
  readonly table: string;
}

export interface LastContractsOptions {
  readonly store: ObjectStore;
  /** Of the key in force; null without one. */
  readonly keyId: string | null;
  /** Null: another's table is read, nothing is kept. */
  readonly tell: ((notice: TableNotice) => void) | null;
}

export function createLastContracts({ store, keyId, tell }: LastContractsOptions): LastContracts {
  /** What stands in the lake: hash of the text, name of the key. */
  const texts = new Map<string, string>();
  const keys = new Map<string, string>();

  const pathOf = (table: TableId): string => `${FOLDER}/${contractFileName(table)}`;

  /** Rows that do not change keep what the earlier key made of them: that is said, with what mends it. */
  async function keepKey(plan: TablePlan, table: TableId): Promise<void> {
    const id = `${table.schema}.${table.table}`;
    const hashed = (plan.privacy?.columns ?? []).filter(({ action }) => action === 'hash').map(({ name }) => name);
    if (keyId === null || hashed.length === 0 || keys.get(id) === keyId) return;
    const path = `${pathOf(table)}.key`;
    const stood = await getText(store, path);
    if (stood !== null && stood !== keyId)
      tell?.({
        ...table,
        message: `table ${id}: privacy.key is another one than before; rows that do not change keep their old pseudonyms in ${hashed.join(', ')}`,
        hint: `sluice backfill ${id} --exact writes them anew`,
      });
    if (stood !== keyId) await store.put(path, Buffer.from(keyId));
    keys.set(id, keyId);
  }

  return {
    text: (table) => getText(store, pathOf(table)),
    async keep(plan, table) {
      if (tell === null) return;
      await keepKey(plan, table);
      const id = `${table.schema}.${table.table}`;
      if (texts.get(id) === plan.contract.hash) return;
      await store.put(pathOf(table), Buffer.from(plan.contract.text));
      texts.set(id, plan.contract.hash);
    },
    restored(plan, table) {
      tell?.({
        ...table,
        message: `table ${table.schema}.${table.table}: its contract file was gone; version ${plan.contract.version}, which its last batch used, is written there again`,
        hint: 'to give the table another contract, edit the file',
      });
    },
  };
}
