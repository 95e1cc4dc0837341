/**
 * A switched table, and one that was switched back, as other engines read it: on disk, and on S3, where the built files are
 * copied object by object below the table's root.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { scan, scanSchema } from '../../lakehouse/read/scan.ts';
import { openStore } from '../../lakehouse/store/open-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { readWithDeltaRs, readWithDuckDb } from '../judges/judge.ts';
import { canonicalRows } from '../support/canonical-rows.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { getS3 } from '../support/s3.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { createReplayPipeline, type ReplayPipeline } from './replay-pipeline.ts';

const suite = await requires('switched tables in other engines', 'pg18', 's3', 'python');

interface Place {
  readonly yaml: string;
  readonly env: Readonly<Record<string, string>>;
  readonly uri: (cwd: string) => string;
  /** What delta-rs needs to read there; null = a path on this machine. */
  readonly storage: Readonly<Record<string, string>> | null;
}

async function onS3(): Promise<Place> {
  const { endpoint, region, uri, environment, accessKeyId, secretAccessKey } = await getS3();
  return {
    yaml: `lake: {uri: ${uri}/lake, s3: {endpoint: "${endpoint}", region: ${region}}}`,
    env: environment,
    uri: () => `${uri}/lake/public/items`,
    storage: {
      AWS_ENDPOINT_URL: endpoint,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      AWS_REGION: region,
      AWS_ALLOW_HTTP: 'true',
    },
  };
}

const onDisk = async (): Promise<Place> => ({
  yaml: '',
  env: {},
  uri: (cwd) => join(cwd, 'lake/public/items'),
  storage: null,
});

suite('a switched table in other engines', () => {
  const folder = temporaryFolder('read-elsewhere');
  const started: { pipeline: ReplayPipeline; database: TestDatabase }[] = [];

  afterAll(async () => {
    for (const { pipeline, database } of started) {
      await pipeline.stop();
      await database.close();
    }
  });

  /** Rows by our own scan, after the other engines have been found to read the same. */
  async function readByAll(place: Place, cwd: string, copy: string): Promise<Record<string, unknown>[]> {
    const uri = place.uri(cwd);
    const credentials = {
      accessKeyId: place.storage?.['AWS_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: place.storage?.['AWS_SECRET_ACCESS_KEY'] ?? '',
    };
    const store = openStore(uri, {
      ...(place.storage === null ? {} : { endpoint: place.storage['AWS_ENDPOINT_URL'] ?? '' }),
      region: place.storage?.['AWS_REGION'] ?? 'us-east-1',
      forcePathStyle: true,
      credentials: () => Promise.resolve(credentials),
    });
    try {
      const snapshot = await openSnapshot(store);
      const ours = await canonicalRows(scanSchema(snapshot), scan(snapshot));
      expect(await readWithDeltaRs(uri, place.storage === null ? {} : { storage: place.storage })).toEqual(ours);
      // DuckDB's S3 is an extension of its own; it reads a copy on disk.
      for await (const object of store.list('')) {
        const path = join(copy, object.key);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, await store.get(object.key));
      }
      expect(await readWithDuckDb(copy)).toEqual(ours);
      return ours.map((row) => JSON.parse(row) as Record<string, unknown>);
    } finally {
      await store.close();
    }
  }

  it.each([
    ['disk', onDisk],
    ['S3', onS3],
  ] as const)('on %s', async (name, find) => {
    const place = await find();
    const database = await getPostgres();
    await database.query(`
      create table items (id int primary key, n int, note text);
      insert into items select i, i, 'note ' || i from generate_series(1, 1500) i`);
    const pipeline = await createReplayPipeline(
      folder,
      `elsewhere_${name.toLowerCase()}`,
      database,
      place.yaml,
      place.env,
    );
    started.push({ pipeline, database });
    const cwd = pipeline.folder;
    const ids = async (): Promise<number[]> =>
      (await database.query('select id from items order by id')).map(({ id }) => Number(id));
    await pipeline.start();
    await waitFor('the snapshot', () => pipeline.equal());
    await database.query(`update items set n = n + 1 where id % 3 = 0; delete from items where id % 10 = 0`);
    await pipeline.expectEqual('items');
    const other = parseDocument(pipeline.contract('items'));
    const columns = other.getIn(['schema', 0, 'properties']) as YAMLSeq<YAMLMap>;
    columns.items
      .find((column) => column.get('name') === 'note')
      ?.set('customProperties', other.createNode([{ property: 'piiAction', value: 'drop' }]));
    pipeline.write('other.odcs.yaml', other.toString());
    const args = ['replay', 'items', '--into', 'public.items_new'];
    const built = await pipeline.sluice(...args, '--contract', 'other.odcs.yaml');
    expect(built.code, built.err).toBe(0);
    const swapped = await pipeline.sluice(...args, '--swap', '--json');
    expect(swapped.json, swapped.err).toMatchObject({ kind: 'swap', contractChanged: true });
    expect(Number(swapped.json['copiedBytes'])).toBeGreaterThan(1_000);
    // What the stream does to copied files (deletion vectors, new rows) is read, too.
    await database.query(
      `update items set n = -n where id % 7 = 0; insert into items values (9001, 1, 'after the switch')`,
    );
    await pipeline.expectEqual('items');
    const now = await readByAll(place, cwd, join(folder, name, 'switched'));
    expect(now.map(({ id }) => Number(id)).toSorted((a, b) => a - b)).toEqual(await ids());
    expect(now.every((row) => !('note' in row))).toBe(true);

    const undone = await pipeline.sluice('replay', 'items', '--undo', '--json');
    expect(undone.json, undone.err).toMatchObject({ kind: 'undo' });
    await database.query(`update items set note = 'again' where id = 9001`);
    await pipeline.expectEqual('items');
    const back = await readByAll(place, cwd, join(folder, name, 'back'));
    expect(back.map(({ id }) => Number(id)).toSorted((a, b) => a - b)).toEqual(await ids());
    expect(back.find(({ id }) => Number(id) === 9001)).toMatchObject({ note: 'again' });
    expect(back.find(({ id }) => Number(id) === 1)).toMatchObject({ note: 'note 1' });
  });
});
