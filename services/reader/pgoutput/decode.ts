/**
 * Bytes of pgoutput to typed messages. Pure: the only state is the RELATIONs seen and the streamed transaction in work.
 * Row messages and their tuples are reused by the next call (messages.ts); everything else is a fresh object.
 */
import {
  malformed,
  readByte,
  readBytes,
  readInt32,
  readInt64,
  readString,
  readUint16,
  readUint32,
  readUint64,
  type ByteCursor,
} from './byte-cursor.ts';
import type {
  DeleteMessage,
  InsertMessage,
  PgoutputMessage,
  PreparedMessage,
  RelationColumn,
  RelationMessage,
  TruncateMessage,
  UpdateMessage,
} from './messages.ts';
import { createTuple, readTuple, type MutableTuple } from './read-tuple.ts';
import { createRelationCache, type RelationCache } from './relations.ts';

export interface PgoutputDecoder {
  /** Decodes the message bytes[start .. end). @throws ReaderError PGOUTPUT_INVALID */
  decode(bytes: Buffer, start: number, end: number): PgoutputMessage;
  readonly relations: RelationCache;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface DecoderState {
  readonly cursor: ByteCursor;
  readonly relations: RelationCache;
  readonly before: MutableTuple;
  readonly after: MutableTuple;
  readonly insert: Mutable<InsertMessage>;
  readonly update: Mutable<UpdateMessage>;
  readonly remove: Mutable<DeleteMessage>;
  /** Xid of the stream block in work, or 0. Inside a block most messages carry the (sub)transaction's xid behind the tag. */
  streamXid: number;
}

const NO_RELATION: RelationMessage = {
  tag: 'relation',
  streamXid: 0,
  oid: 0,
  schema: '',
  table: '',
  replicaIdentity: 'd',
  columns: [],
};

const LETTER_N = 0x4e;
const LETTER_K = 0x4b;
const LETTER_O = 0x4f;

export function createPgoutputDecoder(): PgoutputDecoder {
  const before = createTuple();
  const after = createTuple();
  const relations = createRelationCache();
  const state: DecoderState = {
    cursor: { bytes: Buffer.alloc(0), at: 0, end: 0 },
    relations,
    before,
    after,
    insert: { tag: 'insert', streamXid: 0, relation: NO_RELATION, after },
    update: { tag: 'update', streamXid: 0, relation: NO_RELATION, beforeKind: 'none', before, after },
    remove: { tag: 'delete', streamXid: 0, relation: NO_RELATION, beforeKind: 'key', before },
    streamXid: 0,
  };
  return {
    relations,
    decode(bytes, start, end) {
      const { cursor } = state;
      cursor.bytes = bytes;
      cursor.at = start;
      cursor.end = end;
      const message = decodeTagged(state, readByte(cursor));
      if (cursor.at !== cursor.end) throw malformed(`${cursor.end - cursor.at} bytes behind a ${message.tag} message`);
      return message;
    },
  };
}

function decodeTagged(state: DecoderState, tag: number): PgoutputMessage {
  switch (tag) {
    case 0x49: // I
      return decodeInsert(state);
    case 0x55: // U
      return decodeUpdate(state);
    case 0x44: // D
      return decodeDelete(state);
    case 0x42: // B
      return {
        tag: 'begin',
        finalLsn: readUint64(state.cursor),
        commitTime: readInt64(state.cursor),
        xid: readUint32(state.cursor),
      };
    case 0x43: // C
      readByte(state.cursor); // flags, unused
      return {
        tag: 'commit',
        commitLsn: readUint64(state.cursor),
        endLsn: readUint64(state.cursor),
        commitTime: readInt64(state.cursor),
      };
    case 0x52: // R
      return decodeRelation(state);
    case 0x59: // Y
      return {
        tag: 'type',
        streamXid: rowXid(state),
        oid: readUint32(state.cursor),
        schema: readString(state.cursor),
        name: readString(state.cursor),
      };
    case 0x54: // T
      return decodeTruncate(state);
    case 0x4d: // M
      return decodeLogicalMessage(state);
    case 0x4f: // O
      return { tag: 'origin', originLsn: readUint64(state.cursor), name: readString(state.cursor) };
    default:
      return decodeStreamed(state, tag);
  }
}

/** The (sub)transaction's xid that precedes most messages inside a stream block; 0 outside. */
function rowXid(state: DecoderState): number {
  return state.streamXid === 0 ? 0 : readUint32(state.cursor);
}

function relationOf(state: DecoderState): RelationMessage {
  return state.relations.get(readUint32(state.cursor), state.streamXid);
}

function decodeInsert(state: DecoderState): InsertMessage {
  const message = state.insert;
  message.streamXid = rowXid(state);
  message.relation = relationOf(state);
  if (readByte(state.cursor) !== LETTER_N) throw malformed('an insert without its new row');
  readRow(state, state.after, message.relation);
  return message;
}

function decodeUpdate(state: DecoderState): UpdateMessage {
  const message = state.update;
  message.streamXid = rowXid(state);
  message.relation = relationOf(state);
  message.beforeKind = 'none';
  let letter = readByte(state.cursor);
  if (letter === LETTER_K || letter === LETTER_O) {
    message.beforeKind = letter === LETTER_K ? 'key' : 'row';
    readRow(state, state.before, message.relation);
    letter = readByte(state.cursor);
  }
  if (letter !== LETTER_N) throw malformed('an update without its new row');
  readRow(state, state.after, message.relation);
  return message;
}

function decodeDelete(state: DecoderState): DeleteMessage {
  const message = state.remove;
  message.streamXid = rowXid(state);
  message.relation = relationOf(state);
  const letter = readByte(state.cursor);
  if (letter !== LETTER_K && letter !== LETTER_O) throw malformed('a delete without its old key or row');
  message.beforeKind = letter === LETTER_K ? 'key' : 'row';
  readRow(state, state.before, message.relation);
  return message;
}

function readRow(state: DecoderState, tuple: MutableTuple, relation: RelationMessage): void {
  readTuple(state.cursor, tuple, relation.columns.length, relation.table);
}

function decodeRelation(state: DecoderState): RelationMessage {
  const { cursor } = state;
  rowXid(state); // a sub-transaction's: the definition belongs to the whole streamed transaction
  const oid = readUint32(cursor);
  // pg_catalog is sent as an empty namespace.
  const schema = readString(cursor) || 'pg_catalog';
  const table = readString(cursor);
  const identity = String.fromCharCode(readByte(cursor));
  if (identity !== 'd' && identity !== 'n' && identity !== 'f' && identity !== 'i') {
    throw malformed(`replica identity '${identity}' of ${schema}.${table}`);
  }
  const count = readUint16(cursor);
  const columns: RelationColumn[] = [];
  for (let i = 0; i < count; i++) {
    const flags = readByte(cursor);
    columns.push({
      name: readString(cursor),
      typeOid: readUint32(cursor),
      typeModifier: readInt32(cursor),
      inKey: (flags & 1) === 1,
    });
  }
  const relation: RelationMessage = {
    tag: 'relation',
    streamXid: state.streamXid,
    oid,
    schema,
    table,
    replicaIdentity: identity,
    columns,
  };
  state.relations.set(relation);
  return relation;
}

function decodeTruncate(state: DecoderState): TruncateMessage {
  const streamXid = rowXid(state);
  const count = readUint32(state.cursor);
  const options = readByte(state.cursor);
  const relations: RelationMessage[] = [];
  for (let i = 0; i < count; i++) relations.push(relationOf(state));
  return {
    tag: 'truncate',
    streamXid,
    relations,
    cascade: (options & 1) === 1,
    restartIdentity: (options & 2) === 2,
  };
}

function decodeLogicalMessage(state: DecoderState): PgoutputMessage {
  const { cursor } = state;
  const streamXid = rowXid(state);
  const transactional = (readByte(cursor) & 1) === 1;
  const lsn = readUint64(cursor);
  const prefix = readString(cursor);
  return { tag: 'message', streamXid, transactional, lsn, prefix, content: readBytes(cursor, readUint32(cursor)) };
}

/** Protocols 2 to 4: streamed transactions and two-phase commit. */
function decodeStreamed(state: DecoderState, tag: number): PgoutputMessage {
  const { cursor } = state;
  switch (tag) {
    case 0x53: {
      // S
      if (state.streamXid !== 0) throw malformed('a stream block inside a stream block');
      const xid = readUint32(cursor);
      state.streamXid = xid;
      return { tag: 'stream-start', xid, firstSegment: readByte(cursor) === 1 };
    }
    case 0x45: // E
      if (state.streamXid === 0) throw malformed('the end of a stream block that never began');
      state.streamXid = 0;
      return { tag: 'stream-stop' };
    case 0x63: {
      // c
      const xid = readUint32(cursor);
      readByte(cursor); // flags, unused
      state.relations.streamCommitted(xid);
      return {
        tag: 'stream-commit',
        xid,
        commitLsn: readUint64(cursor),
        endLsn: readUint64(cursor),
        commitTime: readInt64(cursor),
      };
    }
    case 0x41: {
      // A
      const xid = readUint32(cursor);
      const subXid = readUint32(cursor);
      // Protocol 4 with streaming=parallel adds the abort's LSN and time.
      if (cursor.at < cursor.end) readBytes(cursor, 16);
      if (xid === subXid) state.relations.streamAborted(xid);
      return { tag: 'stream-abort', xid, subXid };
    }
    default:
      return decodePrepared(state, tag);
  }
}

function decodePrepared(state: DecoderState, tag: number): PreparedMessage {
  const { cursor } = state;
  switch (tag) {
    case 0x62: // b
      return preparedBody(cursor, 'begin-prepare');
    case 0x50: // P
    case 0x70: {
      // p
      readByte(cursor); // flags, unused
      const message = preparedBody(cursor, tag === 0x50 ? 'prepare' : 'stream-prepare');
      if (message.tag === 'stream-prepare') state.relations.streamCommitted(message.xid);
      return message;
    }
    case 0x4b: // K
      readByte(cursor); // flags, unused
      return preparedBody(cursor, 'commit-prepared');
    case 0x72: {
      // r: carries the times of both the prepare and the rollback
      readByte(cursor); // flags, unused
      const lsn = readUint64(cursor);
      const endLsn = readUint64(cursor);
      readInt64(cursor);
      const time = readInt64(cursor);
      return { tag: 'rollback-prepared', lsn, endLsn, time, xid: readUint32(cursor), gid: readString(cursor) };
    }
    default:
      throw malformed(`unknown message type 0x${tag.toString(16)}`);
  }
}

function preparedBody(cursor: ByteCursor, tag: PreparedMessage['tag']): PreparedMessage {
  const lsn = readUint64(cursor);
  const endLsn = readUint64(cursor);
  const time = readInt64(cursor);
  return { tag, lsn, endLsn, time, xid: readUint32(cursor), gid: readString(cursor) };
}
