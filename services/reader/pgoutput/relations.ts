/**
 * The RELATION in force, by table OID. pgoutput sends a RELATION before the first row that needs it and again after every
 * change of the table, so the last one seen is the one in force. Inside streamed transactions (protocol 2+) definitions
 * belong to their transaction until it commits, and vanish with it when it aborts.
 */
import { ReaderError } from '../reader-error.ts';
import type { RelationMessage } from './messages.ts';

export interface RelationCache {
  set(relation: RelationMessage): void;
  /** @throws ReaderError PGOUTPUT_INVALID: rows of a table that was never described are an error, never skipped. */
  get(oid: number, streamXid: number): RelationMessage;
  streamCommitted(xid: number): void;
  streamAborted(xid: number): void;
}

export function createRelationCache(): RelationCache {
  const base = new Map<number, RelationMessage>();
  const streamed = new Map<number, Map<number, RelationMessage>>();
  return {
    set(relation) {
      if (relation.streamXid === 0) {
        base.set(relation.oid, relation);
        return;
      }
      let own = streamed.get(relation.streamXid);
      if (own === undefined) streamed.set(relation.streamXid, (own = new Map()));
      own.set(relation.oid, relation);
    },
    get(oid, streamXid) {
      const found = (streamXid === 0 ? undefined : streamed.get(streamXid)?.get(oid)) ?? base.get(oid);
      if (found !== undefined) return found;
      throw new ReaderError(
        'PGOUTPUT_INVALID',
        `the server sent a row of table OID ${oid} without describing it first`,
      );
    },
    streamCommitted(xid) {
      for (const relation of streamed.get(xid)?.values() ?? []) base.set(relation.oid, relation);
      streamed.delete(xid);
    },
    streamAborted(xid) {
      streamed.delete(xid);
    },
  };
}
