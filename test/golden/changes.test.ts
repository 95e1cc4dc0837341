/** Change feeds of foreign tables: the rows of the last version are what its changes from the first on add up to. */
import { describe, expect, it } from 'vitest';
import { changesSchema, readChanges } from '../../lakehouse/read/changes.ts';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { HAS_DELTA_TABLES, deltaTable, deltaTables } from './delta-tables.ts';

if (!HAS_DELTA_TABLES)
  process.stdout.write('skipped: changes of foreign tables: ../shared/delta-tables is not there\n');

const FEED = /,"_change_type":"(insert|delete|update_preimage|update_postimage)","_commit_version":(\d+),.*\}$/;

/** Commits made by hand: change files that no file of the table answers to. Rows a version are all there is to check. */
const BY_HAND: Readonly<Record<string, readonly string[]>> = {
  'kernel/cdf-table-simple': ['0 insert 10', '1 delete 10', '2 insert 5'],
  'kernel/cdf-table-update-ops': ['0 insert 10', '1 update_pre 5', '2 update_post 5'],
};
const NO_FEED = new Set([
  'kernel/cdf-column-mapping-id-mode',
  'kernel/cdf-column-mapping-name-mode',
  'kernel/cdf-column-mapping-name-mode-3-7',
]);

async function changesOf(name: string): Promise<string[]> {
  const store = createFileStore(deltaTable(name).path);
  const schema = changesSchema(await openSnapshot(store));
  return canonicalRows(schema, readChanges(store, { from: 0n }));
}

describe.skipIf(!HAS_DELTA_TABLES)('change feeds', () => {
  const tables = [...deltaTables('kernel'), ...deltaTables('dat')].filter(
    ({ name }) => /\/cdf/.test(name) && !NO_FEED.has(name) && BY_HAND[name] === undefined,
  );
  for (const { name, path } of tables) {
    it(`${name} adds up to its rows`, async () => {
      const sums = new Map<string, number>();
      for (const row of await changesOf(name)) {
        const [tail, type] = FEED.exec(row) ?? [];
        const key = `${row.slice(0, row.length - (tail?.length ?? 0))}}`;
        const step = type === 'insert' || type === 'update_postimage' ? 1 : -1;
        sums.set(key, (sums.get(key) ?? 0) + step);
      }
      const snapshot = await openSnapshot(createFileStore(path));
      const rows = await canonicalRows(scanSchema(snapshot), scan(snapshot));
      const added = [...sums].flatMap(([row, sum]) => Array<string>(Math.max(sum, 0)).fill(row)).sort();
      expect([...sums.values()].every((sum) => sum >= 0)).toBe(true);
      expect(added).toEqual(rows);
    });
  }

  for (const [name, expected] of Object.entries(BY_HAND)) {
    it(`${name} has its rows a version`, async () => {
      const counts = new Map<string, number>();
      for (const row of await changesOf(name)) {
        const [, type = '', version = ''] = /"_change_type":"(\w+)","_commit_version":(\d+)/.exec(row) ?? [];
        counts.set(`${version} ${type}`, (counts.get(`${version} ${type}`) ?? 0) + 1);
      }
      expect([...counts].map(([key, count]) => `${key} ${count}`).sort()).toEqual(expected);
    });
  }

  it('refuses a range in which the feed was off, and one beyond the table', async () => {
    const off = createFileStore(deltaTable('kernel/cdf-column-mapping-id-mode').path);
    await expect(readChanges(off, { from: 0n }).next()).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
    const store = createFileStore(deltaTable('kernel/cdf-table').path);
    await expect(readChanges(store, { from: 99n }).next()).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
  });
});
