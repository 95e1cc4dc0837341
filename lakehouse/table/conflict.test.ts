import { describe, expect, it } from 'vitest';
import { NO_ACTIONS, newAdd, removeOf } from './actions.ts';
import type { AddFile, Commit, CommitActions } from './actions.ts';
import { READS_NOTHING, findConflicts, readsFiles } from './conflict.ts';
import type { ReadSet } from './conflict.ts';

const file = (path: string, dataChange = true): AddFile =>
  newAdd({ path, partitionValues: {}, size: 1n, modificationTime: 1n, dataChange, stats: null });
const won = (actions: Partial<CommitActions>): Commit => ({ ...NO_ACTIONS, version: 5n, ...actions });
const ours = (actions: Partial<CommitActions>): CommitActions => ({ ...NO_ACTIONS, ...actions });
const vector = { storageType: 'u', pathOrInlineDv: 'x', offset: 1, sizeInBytes: 4, cardinality: 1n } as const;

const merge: ReadSet = { isolation: 'Serializable', couldMatch: () => true, isRead: (path) => path.startsWith('read') };
const kinds = (mine: CommitActions, reads: ReadSet, winner: Commit): readonly string[] =>
  findConflicts(mine, reads, winner).map(({ kind }) => kind);

describe('conflicts', () => {
  it('counts an append against a merge that could match it, and not against appends and rearrangements', () => {
    const append = won({ commitInfo: { isBlindAppend: true }, adds: [file('new')] });
    expect(kinds(ours({}), merge, append)).toEqual(['concurrent-append']);
    expect(kinds(ours({}), { ...merge, isolation: 'WriteSerializable' }, append)).toEqual([]);
    expect(kinds(ours({}), { ...merge, couldMatch: () => false }, append)).toEqual([]);
    expect(kinds(ours({}), READS_NOTHING, append)).toEqual([]);
    expect(kinds(ours({}), readsFiles(['a']), append)).toEqual([]);
  });
  it('lets a rearrangement pass unless it takes a file of ours', () => {
    const optimize = won({ adds: [file('big', false)], removes: [removeOf(file('small'), 1, false)] });
    expect(kinds(ours({}), merge, optimize)).toEqual([]);
    expect(kinds(ours({ removes: [removeOf(file('small'), 1, true)] }), merge, optimize)).toEqual([
      'concurrent-delete',
    ]);
    expect(kinds(ours({}), readsFiles(['small']), optimize)).toEqual(['concurrent-delete-read']);
  });
  it('compares files by path, whatever their vectors and spelling', () => {
    const theirs = won({
      adds: [{ ...file('a%20b'), deletionVector: vector }],
      removes: [removeOf(file('a%20b'), 1, true)],
    });
    const mine = ours({ removes: [removeOf({ ...file('a b'), deletionVector: vector }, 1, true)] });
    expect(kinds(mine, merge, theirs)).toEqual(['concurrent-delete']);
  });
  it('names metadata, protocol, transactions and domains', () => {
    const winner = won({
      protocol: { minReaderVersion: 1, minWriterVersion: 2, readerFeatures: null, writerFeatures: null },
      txns: [{ appId: 'q', version: 3n, lastUpdated: null }],
      domains: [{ domain: 'd', configuration: '', removed: false }],
    });
    const mine = ours({
      txns: [{ appId: 'q', version: 3n, lastUpdated: null }],
      domains: [{ domain: 'd', configuration: '', removed: false }],
    });
    expect(kinds(mine, READS_NOTHING, winner)).toEqual([
      'protocol-changed',
      'concurrent-transaction',
      'domain-changed',
    ]);
  });
  it('counts a remove of a read file', () => {
    expect(kinds(ours({}), merge, won({ removes: [removeOf(file('read-1'), 1, true)] }))).toEqual([
      'concurrent-delete-read',
    ]);
    expect(kinds(ours({}), merge, won({ removes: [removeOf(file('other'), 1, true)] }))).toEqual([]);
  });
});
