/** A table as the stream sees it: where its events go, and the encoder for the RELATION in force. */
import {
  compileShapeEncoder,
  type EnvelopeSource,
  type ReplacerOf,
  type ShapeEncoder,
} from '../log/envelope-encode.ts';
import type { TableShape } from '../log/event.ts';
import { dataTopic } from '../log/topics.ts';
import type { BagLoad } from './bag-load.ts';
import type { KeyRecorder } from './key-recorder.ts';
import type { TableState } from './reader-state.ts';

/** Why a table takes no more events. */
export interface StopReason {
  readonly state: string;
  readonly detail: string;
  readonly remedy: string;
}

export interface TableRoute {
  readonly schema: string;
  readonly table: string;
  readonly topic: string;
  /** Partitions of the topic: TRUNCATE goes to each. */
  partitions: number;
  /** Shape and encoder of the RELATION in force; null until one was seen. */
  encoder: ShapeEncoder | null;
  /** Rises when a RELATION brought another shape. */
  shapeChanges: number;
  /** Shapes that followed another one, since this run began: DDL that may have written values without row events. */
  alterations: number;
  /** Of these, how many the catalog was looked at for. */
  alterationsSeen: number;
  /** TRUNCATE events since this run began, and how many of them a look at the catalog has met. */
  truncates: number;
  truncatesSeen: number;
  state: TableState;
  /** Key of the rows that the last snapshot of this run reads; null = none has begun. */
  keyRead: readonly string[] | null;
  /** Set while chunks of the table are being read. */
  recorder: KeyRecorder | null;
  /** Set while a table without key is being loaded. */
  bag: BagLoad | null;
  /** Events so far of the transaction in work, for Debezium's data_collection_order. */
  collectionOrder: number;
  collectionTransaction: number;
  /** Cumulative counts, for status. */
  events: bigint;
  snapshotRows: bigint;
}

export function tableName(schema: string, table: string): string {
  return `${schema}.${table}`;
}

export function createTableRoute(pipeline: string, state: TableState, partitions: number): TableRoute {
  return {
    schema: state.schema,
    table: state.table,
    topic: dataTopic(pipeline, state.schema, state.table),
    partitions,
    encoder: null,
    shapeChanges: 0,
    alterations: 0,
    alterationsSeen: 0,
    truncates: 0,
    truncatesSeen: 0,
    state,
    keyRead: null,
    recorder: null,
    bag: null,
    collectionOrder: 0,
    collectionTransaction: 0,
    events: 0n,
    snapshotRows: 0n,
  };
}

/** Whether a table whose rows the log holds has to be read again is not known until the catalog was looked at. */
export function isAltered(route: TableRoute): boolean {
  return takesEvents(route.state) && route.alterations > route.alterationsSeen;
}

/** Just about to be planned from the catalog as it will be, and all that the lake has of it goes first. */
export function beginsAnew({ phase, heaps, clearFirst }: TableState): boolean {
  return phase === 'snapshotting' && heaps.length === 0 && clearFirst === true;
}

/** Compiled encoders by shape version: a table that changes to and fro compiles each shape once. */
export function encoderCache(source: EnvelopeSource, replacerOf?: ReplacerOf): (shape: TableShape) => ShapeEncoder {
  const byVersion = new Map<number, ShapeEncoder>();
  return (shape) => {
    let encoder = byVersion.get(shape.version);
    if (encoder === undefined) byVersion.set(shape.version, (encoder = compileShapeEncoder(shape, source, replacerOf)));
    return encoder;
  };
}

/** Events of the table go to the log; a paused table's do, too (they wait there), a stopped one's do not. */
export function takesEvents(state: TableState): boolean {
  return state.phase !== 'stopped' && state.phase !== 'removed';
}
