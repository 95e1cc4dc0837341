/**
 * The state of tables that other engines wrote, against a second, naive replay of their commits (JSON.parse, a Map and
 * nothing else), at every version whose commits are all there; and the tables that must fail, by the error they fail with.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { vectorId } from '../../lakehouse/table/actions.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { HAS_DELTA_TABLES, deltaTable, deltaTables } from './delta-tables.ts';
import type { DeltaTable } from './delta-tables.ts';

if (!HAS_DELTA_TABLES)
  process.stdout.write('skipped: log state of foreign tables: ../shared/delta-tables is not there\n');

/** Tables that do not open, and why. */
const FAILING: Readonly<Record<string, string>> = {
  // Its metadata is in no commit.
  'golden/data-reader-absolute-paths-escaped-chars': 'LOG_INCOMPLETE',
  'golden/deltalog-invalid-protocol-version': 'PROTOCOL_UNSUPPORTED',
  'golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata': 'LOG_INCOMPLETE',
  'golden/deltalog-state-reconstruction-from-checkpoint-missing-protocol': 'LOG_INCOMPLETE',
  'golden/deltalog-state-reconstruction-without-metadata': 'LOG_INCOMPLETE',
  'golden/deltalog-state-reconstruction-without-protocol': 'LOG_INCOMPLETE',
  'golden/no-delta-log-folder': 'TABLE_NOT_FOUND',
  'golden/versions-not-contiguous': 'LOG_HOLE',
  'kernel/table-with-geo': 'PROTOCOL_UNSUPPORTED',
};
/** Its checkpoint was written for another table than its commits: they do not agree, and the checkpoint counts. */
const DISAGREEING = 'kernel/parquet_row_group_skipping';
/** Not tables: a folder of checksum files only, and one whose features a later reader may take. */
const LEFT_OUT = new Set(['kernel/crc-malformed', 'kernel/unshredded-variant']);
/** Large: its own test below. */
const LARGE = 'kernel/300k-add-files-100-col-partitioned';

interface Naive {
  readonly files: readonly string[];
  readonly txns: Readonly<Record<string, string>>;
  readonly metadataId: string;
}

/** The collector, asked for: what garbage still lies around says nothing of what is held. */
function exposedGc(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

/** Live files and transactions after commits 0..version, or null when one of them is missing. */
function naiveReplay(table: DeltaTable, version: number): Naive | null {
  const files = new Set<string>();
  const txns: Record<string, string> = {};
  let metadataId = '';
  const identity = (file: {
    path: string;
    deletionVector?: { storageType: string; pathOrInlineDv: string; offset?: number };
  }): string => {
    const path = decodeURIComponent(file.path).replace(/^file:\/*/, '/');
    const vector = file.deletionVector;
    return vector == null ? path : `${path} ${vector.storageType}${vector.pathOrInlineDv}@${vector.offset ?? ''}`;
  };
  for (let at = 0; at <= version; at++) {
    const file = join(table.path, '_delta_log', `${String(at).padStart(20, '0')}.json`);
    if (!existsSync(file)) return null;
    for (const line of readFileSync(file, 'utf8')
      .split('\n')
      .filter((text) => text.trim() !== '')) {
      const action = JSON.parse(line);
      if (action.add != null) files.add(identity(action.add));
      if (action.remove != null) files.delete(identity(action.remove));
      if (action.metaData != null) metadataId = action.metaData.id;
      if (action.txn != null) txns[action.txn.appId] = String(action.txn.version);
    }
  }
  return { files: [...files].sort(), txns, metadataId };
}

function stateOf(snapshot: Snapshot): Naive {
  const files = [...snapshot.files].map(({ path, deletionVector: vector }) => {
    const name = decodeURIComponent(path).replace(/^file:\/*/, '/');
    return vector === null ? name : `${name} ${vector.storageType}${vector.pathOrInlineDv}@${vector.offset ?? ''}`;
  });
  const txns = Object.fromEntries([...snapshot.txns.values()].map(({ appId, version }) => [appId, String(version)]));
  return { files: files.sort(), txns, metadataId: snapshot.metadata.id };
}

function commitsOnly(store: ObjectStore): ObjectStore {
  return {
    ...store,
    async *list(prefix, options) {
      for await (const meta of store.list(prefix, options)) {
        if (!/\.checkpoint\.|\.compacted\./.test(meta.key)) yield meta;
      }
    },
  };
}

const tables = [...deltaTables('golden'), ...deltaTables('dat'), ...deltaTables('kernel')].filter(
  ({ name }) => !LEFT_OUT.has(name) && name !== LARGE,
);

describe.skipIf(!HAS_DELTA_TABLES)('log state of tables that other engines wrote', () => {
  it('are found', () => {
    expect(tables.length).toBeGreaterThan(140);
    const names = new Set(tables.map(({ name }) => name));
    expect(Object.keys(FAILING).filter((name) => !names.has(name))).toEqual([]);
  });

  it.each(tables.map((table) => [table.name, table] as const))('%s', async (name, table) => {
    const store = createFileStore(table.path);
    const failing = FAILING[name];
    if (failing !== undefined) {
      await expect(openSnapshot(store)).rejects.toMatchObject({ code: failing });
      return;
    }
    const newest = await openSnapshot(store, { tombstones: true });
    if (name === DISAGREEING) {
      expect(newest.checkpointVersion).toBe(1n);
      return;
    }
    let compared = 0;
    for (let version = Number(newest.version); version >= 0 && compared < 20; version--) {
      const naive = naiveReplay(table, version);
      if (naive === null) continue;
      const snapshot = await openSnapshot(store, { version: BigInt(version) });
      expect(stateOf(snapshot), `version ${version}`).toEqual(naive);
      compared++;
    }
    if (naiveReplay(table, Number(newest.version)) !== null) {
      const replayed = await openSnapshot(commitsOnly(store), { tombstones: true });
      expect(stateOf(replayed)).toEqual(stateOf(newest));
      expect(replayed.files.sizeBytes).toBe(newest.files.sizeBytes);
    }
    const ids = [...newest.files].map((file) => `${file.path} ${vectorId(file.deletionVector)}`);
    expect(new Set(ids).size).toBe(newest.files.count);
  });

  it.each(deltaTables('dat').map((table) => [table.name, table] as const))(
    '%s has the protocol and properties that its author says, at each version',
    async (_name, table) => {
      const versions = table.expected === null ? [] : readdirSync(table.expected);
      expect(versions).not.toEqual([]);
      for (const folder of versions) {
        const file = join(table.expected ?? '', folder, 'table_version_metadata.json');
        const said = JSON.parse(readFileSync(file, 'utf8'));
        const snapshot = await openSnapshot(createFileStore(table.path), { version: BigInt(said.version) });
        expect(snapshot.protocol.minReaderVersion).toBe(said.min_reader_version);
        expect(snapshot.protocol.minWriterVersion).toBe(said.min_writer_version);
        expect(snapshot.metadata.configuration).toEqual(said.properties);
      }
    },
  );

  it('opens 300,000 files in bounded memory', async () => {
    const gc = exposedGc();
    gc();
    const before = process.memoryUsage().heapUsed;
    const snapshot = await openSnapshot(createFileStore(deltaTable(LARGE).path));
    expect(snapshot.files.count).toBe(300_000);
    expect(snapshot.schema.fields.length).toBe(100);
    gc();
    // Live records only: about 500 bytes a file, well inside a process of 512 MB.
    expect((process.memoryUsage().heapUsed - before) / 1e6).toBeLessThan(300);
  });
});
