/** What the lake has of a pipeline's tables, for a reader whose log remembers nothing. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { epochAppId, markAppId } from '../../ingest/txn-ids.ts';
import type { LakeFloor } from '../../reader/reader-options.ts';
import { openTable } from '../verify-tables.ts';

/** Any pipeline's epochs count: the rows of a table outlive the name that wrote them. Null = no row has a position yet. */
export async function lakeFloor(
  lake: ObjectStore,
  name: string,
  tables: readonly { readonly schema: string; readonly table: string }[],
): Promise<LakeFloor | null> {
  let [epoch, sequence] = [0, 0];
  for (const { schema, table } of tables) {
    const snapshot = await openTable(lake, tableFolder(schema, table));
    if (snapshot === null) continue;
    for (const [appId, { version }] of snapshot.txns)
      if (appId.endsWith(epochAppId(''))) epoch = Math.max(epoch, Number(version));
    sequence = Math.max(sequence, Number(snapshot.txns.get(markAppId(name))?.version ?? 0n));
  }
  return epoch === 0 ? null : { epoch, sequence };
}
