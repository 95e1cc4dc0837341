/**
 * What we write to a log, as delta-rs and DuckDB read it: with the commits before a checkpoint gone, so that the checkpoint
 * alone tells of them; with deletion vectors, partitions, transactions, a column added later; and what delta-rs commits on
 * top of it, as we read it.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { NO_ACTIONS, removeOf } from '../../lakehouse/table/actions.ts';
import type { AddFile } from '../../lakehouse/table/actions.ts';
import { writeCheckpoint } from '../../lakehouse/table/checkpoint.ts';
import { buildColumn } from '../../lakehouse/table/column-build.ts';
import { commitTo } from '../../lakehouse/table/commit.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import { encodeDeletionVectors } from '../../lakehouse/table/deletion-vector.ts';
import { commitKey } from '../../lakehouse/table/log-files.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import { openSnapshot, refreshSnapshot } from '../../lakehouse/table/snapshot.ts';
import { looseStats } from '../../lakehouse/table/stats-read.ts';
import { changeTable } from '../../lakehouse/upkeep/change-table.ts';
import { fsck } from '../../lakehouse/upkeep/fsck.ts';
import { appendBatch } from '../../lakehouse/write/append-batch.ts';
import { pythonWith } from '../../ops/local/python.ts';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const suite = await requires('our log in other engines', 'python');
const folder = temporaryFolder('our-log');

const SCHEMA: StructType = {
  type: 'struct',
  fields: [
    { name: 'id', type: 'long', nullable: false, metadata: {} },
    { name: 'p', type: 'string', nullable: true, metadata: {} },
  ],
};
const BIG = 9007199254740993n;

const READ = `
import json, sys, duckdb, duckdb_extension_delta, deltalake, os, glob
path = sys.argv[1]
table = deltalake.DeltaTable(path)
rows = deltalake.QueryBuilder().register('t', table).execute('select id, p from t order by id').read_all()
rust = duckdb.from_arrow(rows).fetchall()
extension = glob.glob(os.path.join(os.path.dirname(duckdb_extension_delta.__file__), '**', '*.duckdb_extension'), recursive=True)[0]
db = duckdb.connect(config={'allow_unsigned_extensions': 'true'})
db.execute(f"load '{extension}'")
duck = db.execute(f"select id, p from delta_scan('{path}') order by id").fetchall()
print(json.dumps({'rust': rust, 'duck': duck, 'version': table.version(), 'txn': table.transaction_version('loader'), 'columns': [f.name for f in table.schema().fields]}))
`;

const APPEND = `
import sys, deltalake, arro3.core as arrow
text = arrow.DataType.string()
rows = {'id': arrow.Array([70], arrow.DataType.int64()), 'p': arrow.Array(['z'], text), 'note': arrow.Array(['from delta-rs'], text)}
deltalake.write_deltalake(sys.argv[1], arrow.Table.from_pydict(rows), mode='append')
`;

async function python(program: string): Promise<string> {
  const executable = await pythonWith(cacheFolder());
  const { stdout } = await promisify(execFile)(executable, ['-c', program, join(folder, 't')]);
  return stdout;
}

suite('our log, read by delta-rs and DuckDB', () => {
  it('means the same to them, with the checkpoint alone to tell of the early commits', async () => {
    const store = createFileStore(join(folder, 't'));
    let table = await createTable(store, { schema: SCHEMA, partitionColumns: ['p'] });
    for (const [version, ids] of [[1n, 2n, 3n], [4n, BIG], [6n]].entries()) {
      const partition = version === 2 ? null : `ä b/${version}`;
      const batch = {
        rowCount: ids.length,
        names: ['id', 'p'],
        columns: [
          buildColumn('long', ids.length, (row) => ids[row]),
          buildColumn('string', ids.length, () => partition),
        ],
      };
      table = (await appendBatch(table, batch, { txn: { appId: 'loader', version: BigInt(version) } })).snapshot;
    }
    const file = [...table.files].find(({ partitionValues }) => partitionValues['p'] === 'ä b/0') as AddFile;
    const written = encodeDeletionVectors([Uint32Array.from([1])], crypto.randomUUID());
    await store.put(written.key, written.bytes);
    const marked = { ...file, deletionVector: written.descriptors[0] ?? null, stats: looseStats(file.stats, 3n) };
    const actions = { ...NO_ACTIONS, removes: [removeOf(file, Date.now(), true)], adds: [marked] };
    table = (await commitTo(table, { operation: { name: 'DELETE' }, actions }, async () => null)).snapshot;
    table = (await changeTable(table, { kind: 'add-column', name: 'note', type: 'string' })).snapshot;
    await writeCheckpoint(table);
    await store.delete([0n, 1n, 2n, 3n, 4n].map(commitKey));
    const expected = [
      [1, 'ä b/0'],
      [3, 'ä b/0'],
      [4, 'ä b/1'],
      [6, null],
    ];
    const text = await python(READ);
    // JSON.parse would round it: the digits are looked at.
    expect(text.match(/9007199254740993, "\\u00e4 b\/1"/g)).toHaveLength(2);
    const read = JSON.parse(text);
    for (const engine of ['rust', 'duck']) expect(read[engine].slice(0, 4), engine).toEqual(expected);
    expect(read).toMatchObject({ version: 5, txn: 2, columns: ['id', 'p', 'note'] });

    await python(APPEND);
    const after = await refreshSnapshot(table);
    expect(after.version).toBe(6n);
    expect(after.files.count).toBe(4);
    expect((await openSnapshot(store)).txns.get('loader')?.version).toBe(2n);
    expect((await fsck(store, { deep: true })).findings).toEqual([]);
  });
});
