/** Tables that other engines wrote: our rows against those that DuckDB or delta-rs read, our changes against delta-rs'. */
import { beforeAll, expect, it } from 'vitest';
import { changesSchema, readChanges } from '../../lakehouse/read/changes.ts';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { requires } from '../support/requirements.ts';
import { HAS_DELTA_TABLES, deltaTable, deltaTables } from '../golden/delta-tables.ts';
import { changesWithDeltaRs, readWithDeltaRs, readWithDuckDb } from './judge.ts';

const suite = await requires('judges of foreign tables', 'python');
if (!HAS_DELTA_TABLES) process.stdout.write('skipped: judges of foreign tables: ../shared/delta-tables is not there\n');

/** Not readable by anyone: their data files are not there, or their features too new, or they are no table. */
const UNREADABLE: Readonly<Record<string, string>> = {
  'kernel/app-txn-with-last-updated': 'DATA_FILE_MISSING',
  'kernel/with_checkpoint_no_last_checkpoint': 'DATA_FILE_MISSING',
  'kernel/crc-malformed': 'TABLE_NOT_FOUND',
  'kernel/table-with-geo': 'PROTOCOL_UNSUPPORTED',
  'kernel/unshredded-variant': 'PROTOCOL_UNSUPPORTED',
};
/** A log only, of 300,000 files. */
const LOG_ONLY = 'kernel/300k-add-files-100-col-partitioned';
/** DuckDB knows no void columns. */
const BY_DELTA_RS = new Set(['kernel/void-column']);

async function ourRows(name: string): Promise<string[]> {
  const snapshot = await openSnapshot(createFileStore(deltaTable(name).path));
  return canonicalRows(scanSchema(snapshot), scan(snapshot));
}

suite('judges of foreign tables', () => {
  beforeAll(async () => {
    // Fetching the judge takes longer than one test may.
    if (HAS_DELTA_TABLES) await readWithDeltaRs(deltaTable('kernel/basic_partitioned').path);
  });

  for (const { name, path } of deltaTables('kernel')) {
    if (name === LOG_ONLY) continue;
    const code = UNREADABLE[name];
    if (code !== undefined)
      it(`${name} fails by name`, async () => {
        await expect(ourRows(name)).rejects.toMatchObject({ code });
      });
    else
      it(`${name} reads as others read it`, async () => {
        const judged = BY_DELTA_RS.has(name) ? await readWithDeltaRs(path) : await readWithDuckDb(path);
        expect(await ourRows(name)).toEqual(judged);
      });
  }

  // delta-rs cannot read the paths of the other feeds (a percent sign in them); changes.test.ts has those.
  const FEEDS: Readonly<Record<string, number>> = {
    'kernel/cdf-table': 23,
    'kernel/cdf-table-non-partitioned': 25,
    'kernel/cdf-table-with-cdc-and-dvs': 43,
    'kernel/cdf-table-with-dv': 24,
    'dat/cdf': 9,
  };
  /** Without the time: delta-rs takes the file's. Columns in one order: delta-rs puts partition columns last. */
  const comparable = (rows: readonly string[]): string[] =>
    rows
      .map((row) => {
        const members = Object.entries(JSON.parse(row) as Record<string, unknown>);
        const kept = members.filter(([column]) => column !== '_commit_timestamp');
        return JSON.stringify(Object.fromEntries(kept.toSorted(([a], [b]) => (a < b ? -1 : 1))));
      })
      .sort();
  for (const [name, count] of Object.entries(FEEDS)) {
    it.skipIf(!HAS_DELTA_TABLES)(`${name} has the changes that delta-rs reads`, async () => {
      const store = createFileStore(deltaTable(name).path);
      const last = await openSnapshot(store);
      const ours = comparable(await canonicalRows(changesSchema(last), readChanges(store, { from: 0n })));
      const range = { from: 0, to: Number(last.version) };
      expect(ours).toEqual(comparable(await changesWithDeltaRs(deltaTable(name).path, range)));
      expect(ours.length).toBe(count);
    });
  }
});
