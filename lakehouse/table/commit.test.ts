import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import { NO_ACTIONS, newAdd, removeOf } from './actions.ts';
import type { AddFile, CommitActions } from './actions.ts';
import { commitTo, tryCommit } from './commit.ts';
import type { Proposal } from './commit.ts';
import { cleanLog } from '../upkeep/clean-log.ts';
import { createTable } from './create.ts';
import { commitKey } from './log-files.ts';
import type { StructType } from './schema.ts';
import { openSnapshot, refreshSnapshot } from './snapshot.ts';

const SCHEMA: StructType = { type: 'struct', fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }] };
const backoff = { attemptsMax: 5, baseMs: 0, capMs: 0, sleep: async () => {}, random: () => 0 };

function file(path: string): AddFile {
  return newAdd({
    path,
    partitionValues: {},
    size: 10n,
    modificationTime: 1n,
    dataChange: true,
    stats: '{"numRecords":1}',
  });
}
function propose(actions: Partial<CommitActions>): Proposal {
  return { operation: { name: 'WRITE' }, actions: { ...NO_ACTIONS, ...actions } };
}

/** Answers one putIfAbsent by `answer` instead of the store's own. */
function once(
  inner: ObjectStore,
  answer: (key: string, body: Uint8Array) => Promise<'created' | 'exists'>,
): ObjectStore {
  let done = false;
  return {
    ...inner,
    putIfAbsent: (key, body) => {
      if (done) return inner.putIfAbsent(key, body);
      done = true;
      return answer(key, body);
    },
  };
}

describe('commit', () => {
  it('goes onto a table that Spark dropped a feature from', async () => {
    const created = await createTable(createMemoryStore(), { schema: SCHEMA });
    const writerFeatures = [...(created.protocol.writerFeatures ?? []), 'checkpointProtection'];
    const dropped = propose({ protocol: { ...created.protocol, writerFeatures } });
    const { snapshot } = await commitTo(created, dropped, async () => null);
    expect((await commitTo(snapshot, propose({ adds: [file('a')] }), async () => null)).version).toBe(2n);
    expect((await cleanLog(created.store)).removed).toEqual([]);
  });

  it('goes onto a table that lists the variant feature and has no such column, as delta-rs makes them', async () => {
    const store = createMemoryStore();
    const created = await createTable(store, { schema: SCHEMA });
    const listing = (features: readonly string[] | null): string[] => [...(features ?? []), 'variantType'];
    const protocol = {
      ...created.protocol,
      readerFeatures: listing(created.protocol.readerFeatures),
      writerFeatures: listing(created.protocol.writerFeatures),
    };
    const listed = await commitTo(created, propose({ protocol }), async () => null);
    const added = await commitTo(listed.snapshot, propose({ adds: [file('a')] }), async () => null);
    expect((await openSnapshot(store)).version).toBe(added.version);
    const metadata = {
      ...created.metadata,
      schemaString: '{"type":"struct","fields":[{"name":"doc","type":"variant","nullable":true,"metadata":{}}]}',
    };
    const used = commitTo(added.snapshot, propose({ metadata }), async () => null);
    await expect(used).rejects.toMatchObject({
      code: 'PROTOCOL_UNSUPPORTED',
      message: expect.stringContaining('"variantType" for its column "doc"') as string,
    });
  });

  it('takes a table from creation through adds, removes and transactions', async () => {
    const store = createMemoryStore();
    const created = await createTable(store, { schema: SCHEMA });
    expect(created.version).toBe(0n);
    expect(created.protocol).toEqual({
      minReaderVersion: 3,
      minWriterVersion: 7,
      readerFeatures: ['deletionVectors'],
      writerFeatures: ['appendOnly', 'invariants', 'changeDataFeed', 'deletionVectors'],
    });
    const one = await commitTo(
      created,
      propose({
        adds: [file('a')],
        txns: [
          { appId: 'q', version: 9007199254740993n, lastUpdated: 5n },
          { appId: 'nanoseconds', version: 1796030465668000000n, lastUpdated: null },
        ],
      }),
      async () => null,
    );
    const two = await commitTo(
      one.snapshot,
      propose({ adds: [file('b')], removes: [removeOf(file('a'), 7, true)] }),
      async () => null,
    );
    const read = await openSnapshot(store);
    expect(read.version).toBe(2n);
    expect([...read.files].map(({ path }) => path)).toEqual(['b']);
    expect([...two.snapshot.files]).toEqual([...read.files]);
    expect(read.txns.get('q')?.version).toBe(9007199254740993n);
    expect(read.txns.get('nanoseconds')?.version).toBe(1796030465668000000n);
    expect([...(await openSnapshot(store, { version: 1n })).files].map(({ path }) => path)).toEqual(['a']);
    expect((await refreshSnapshot(created)).version).toBe(2n);
    await expect(createTable(store, { schema: SCHEMA })).rejects.toMatchObject({ code: 'TABLE_EXISTS' });
    await expect(openSnapshot(store, { version: 3n })).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
    await expect(openSnapshot(createMemoryStore())).rejects.toMatchObject({ code: 'TABLE_NOT_FOUND' });
  });

  it.each(['OUTCOME_UNKNOWN after it was stored', 'OUTCOME_UNKNOWN before', 'exists of our own', 'throttled'] as const)(
    'settles %s as one commit',
    async (kind) => {
      const inner = createMemoryStore();
      const created = await createTable(inner, { schema: SCHEMA });
      const store = once(inner, async (key, body) => {
        if (kind !== 'OUTCOME_UNKNOWN before' && kind !== 'throttled') await inner.putIfAbsent(key, body);
        if (kind === 'exists of our own') return 'exists';
        throw new StoreError(kind === 'throttled' ? 'STORE_THROTTLED' : 'STORE_OUTCOME_UNKNOWN', key, 'lost');
      });
      const result = await commitTo({ ...created, store }, propose({ adds: [file('a')] }), async () => null, {
        backoff,
      });
      expect(result).toMatchObject({ version: 1n, conflicts: 0 });
      expect((await openSnapshot(inner)).version).toBe(1n);
    },
  );

  it('shows a lost race to the caller, who rebases, and gives up by name after the last try', async () => {
    const store = createMemoryStore();
    const start = await createTable(store, { schema: SCHEMA });
    await commitTo(start, propose({ adds: [file('theirs')] }), async () => null);
    const seen: bigint[] = [];
    const result = await commitTo(
      start,
      propose({ adds: [file('ours')] }),
      async (proposal, snapshot, winners) => {
        seen.push(...winners.map(({ version }) => version));
        expect([...snapshot.files].map(({ path }) => path)).toEqual(['theirs']);
        return proposal;
      },
      { backoff },
    );
    expect(seen).toEqual([1n]);
    expect(result).toMatchObject({ version: 2n, conflicts: 1 });
    const racing: ObjectStore = {
      ...store,
      putIfAbsent: async (key, body) => {
        await store.putIfAbsent(key, new TextEncoder().encode('{"commitInfo":{"txnId":"other"}}\n'));
        return store.putIfAbsent(key, body);
      },
    };
    const lost = commitTo({ ...result.snapshot, store: racing }, propose({}), async (proposal) => proposal, {
      backoff,
      attemptsMax: 3,
    });
    await expect(lost).rejects.toMatchObject({ code: 'COMMIT_CONTENTION' });
  });

  it('says so when the outcome stays unknown', async () => {
    const inner = createMemoryStore();
    const created = await createTable(inner, { schema: SCHEMA });
    const store: ObjectStore = {
      ...inner,
      putIfAbsent: async (key) => {
        throw new StoreError('STORE_OUTCOME_UNKNOWN', key, 'no answer');
      },
    };
    const lost = commitTo({ ...created, store }, propose({}), async () => null, { backoff });
    await expect(lost).rejects.toMatchObject({ code: 'COMMIT_OUTCOME_UNKNOWN' });
  });

  it('refuses to commit into history that was cleaned up while it slept', async () => {
    const store = createMemoryStore();
    const held = await createTable(store, { schema: SCHEMA });
    let now = held;
    for (const path of ['a', 'b', 'c'])
      now = (await commitTo(now, propose({ adds: [file(path)] }), async () => null)).snapshot;
    await store.delete([commitKey(1n), commitKey(2n)]);
    const late = tryCommit(held, propose({}), 'token', { now: () => held.listedAtMs + 10 * 24 * 3600_000 });
    await expect(late).rejects.toMatchObject({ code: 'COMMIT_CONFLICT' });
  });

  it.each([
    ['two adds of a path', { adds: [file('a'), file('a')] }],
    ['a transaction twice', { txns: [1n, 2n].map((version) => ({ appId: 'q', version, lastUpdated: null })) }],
    ['an add and a remove of one logical file', { adds: [file('a')], removes: [removeOf(file('a'), 1, true)] }],
    ['a partition value without such a column', { adds: [{ ...file('a'), partitionValues: { p: '1' } }] }],
    ['a domain without the feature', { domains: [{ domain: 'd', configuration: '', removed: false }] }],
  ])('refuses %s', async (_name, actions) => {
    const start = await createTable(createMemoryStore(), { schema: SCHEMA });
    await expect(commitTo(start, propose(actions), async () => null)).rejects.toMatchObject({ code: 'COMMIT_INVALID' });
  });
});

describe('credentials that expire between a put and the look at what it left', () => {
  it.each(['lost', 'exists'] as const)(
    'leave the outcome unknown (answer: %s), and the commit may stand',
    async (answer) => {
      const disk = createMemoryStore();
      const table = await createTable(disk, { schema: SCHEMA });
      let expired = false;
      const store = once(
        {
          ...disk,
          get: async (key, range) => {
            if (expired) throw new StoreError('STORE_ACCESS_DENIED', key, 'the token expired');
            return disk.get(key, range);
          },
        },
        async (key, body) => {
          await disk.putIfAbsent(key, body);
          expired = true;
          if (answer === 'exists') return 'exists';
          throw new StoreError('STORE_OUTCOME_UNKNOWN', key, 'no answer');
        },
      );
      const proposal = propose({ adds: [file('a')], txns: [{ appId: 'q', version: 1n, lastUpdated: 5n }] });
      await expect(commitTo({ ...table, store }, proposal, async () => null, { backoff })).rejects.toMatchObject({
        code: 'COMMIT_OUTCOME_UNKNOWN',
        cause: { code: answer === 'exists' ? 'STORE_ACCESS_DENIED' : 'STORE_OUTCOME_UNKNOWN' },
      });
      expect((await openSnapshot(disk)).txns.get('q')?.version).toBe(1n);
    },
  );
});

describe('a damaged log', () => {
  it('names the missing commit, the empty one and the unreadable one', async () => {
    const store = createMemoryStore();
    let now = await createTable(store, { schema: SCHEMA });
    for (const path of ['a', 'b', 'c'])
      now = (await commitTo(now, propose({ adds: [file(path)] }), async () => null)).snapshot;
    const whole = await store.get(commitKey(2n));
    await store.delete([commitKey(2n)]);
    await expect(openSnapshot(store)).rejects.toMatchObject({ code: 'LOG_HOLE', place: { version: 2n } });
    await store.put(commitKey(2n), new Uint8Array(0));
    await expect(openSnapshot(store)).rejects.toMatchObject({ code: 'LOG_COMMIT_CORRUPT', place: { version: 2n } });
    await store.put(commitKey(2n), whole.slice(0, whole.length - 20));
    await expect(openSnapshot(store)).rejects.toMatchObject({ code: 'LOG_COMMIT_CORRUPT', place: { version: 2n } });
    await store.put(commitKey(2n), whole);
    expect((await openSnapshot(store)).files.count).toBe(3);
  });
});
