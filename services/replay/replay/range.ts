/**
 * From what a person asked for to offsets and marks of one table's topic. A range begins at exact offsets and ends at a mark,
 * the first one at or beyond what was asked: every state between two marks is a prefix of the source's order. What the log no
 * longer holds is refused by naming it.
 */
import type { Mark } from '../../log/event.ts';
import { RECORD_HEADER_BYTES } from '../../log/event.ts';
import type { LogReader, PartitionBounds } from '../../log/log.ts';
import { formatLsn, type LogOffset } from '../../log/position.ts';
import { dataTopic } from '../../log/topics.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import type { BatchPlace } from './batch-place.ts';
import { distance, isWithin, offsetsText, walkTopic, type MarkedPlace, type OffsetMap } from './marks.ts';
import type { RangePoint } from './range-point.ts';

export interface RangeStart {
  readonly nextOffsets: OffsetMap;
  /** Newest mark that lies within `nextOffsets`; 0 = none does. */
  readonly markSequence: number;
}

export interface ReplayRange {
  readonly table: string;
  readonly topic: string;
  readonly start: RangeStart;
  readonly end: MarkedPlace;
  /**
   * What the range begins with: the table's first event, a whole read of the table (its first snapshot, or a backfill), or
   * something in the middle: rows that did not change since are then not in it.
   */
  readonly base: 'beginning' | 'read' | 'middle';
  readonly records: bigint;
}

export interface RangePorts {
  readonly reader: LogReader;
  readonly name: string;
  readonly findBatch: (table: string, batch: bigint) => Promise<BatchPlace>;
}

export interface RangeRequest {
  readonly schema: string;
  readonly table: string;
  readonly from: RangePoint;
  readonly to: RangePoint;
  /** A replay that goes on may have come to `to` before: then nothing is left, and that is no error. */
  readonly goesOn?: boolean;
}

/** @throws ConfigError for positions that do not exist; SluiceError REPLAY_RANGE_GONE for what the log no longer holds */
export async function resolveRange(ports: RangePorts, request: RangeRequest): Promise<ReplayRange> {
  const table = `${request.schema}.${request.table}`;
  const topic = dataTopic(ports.name, request.schema, request.table);
  const bounds = await ports.reader.bounds(topic);
  if (bounds.size === 0)
    throw new ConfigError(`the log has no topic of ${table}`, 'see `sluice status` for the tables of the pipeline');
  refuseBackwards(request);
  const held = await heldBy(ports.reader, topic, bounds);
  const context: Context = { ports, table, topic, bounds, held };
  const from = await asOffsets(context, '--from', request.from);
  const to = await asOffsets(context, '--to', request.to);
  const search = createSearch(context, from, to, request.goesOn === true);
  await walkTopic(ports.reader, ports.name, topic, (place) => search.visit(place));
  return search.done();
}

/** What is plain from the words alone; the rest shows when both are found in the log. */
function refuseBackwards({ from, to }: RangeRequest): void {
  const backwards =
    (from.kind === 'lsn' && to.kind === 'lsn' && to.lsn < from.lsn) ||
    (from.kind === 'time' && to.kind === 'time' && to.micros < from.micros) ||
    (from.kind === 'batch' && to.kind === 'batch' && to.batch < from.batch) ||
    (from.kind === 'offset' && to.kind === 'offset' && isBackwards(from.offsets, to.offsets));
  if (backwards)
    throw new ConfigError('--to lies before --from', 'name a later end, or leave --to out for all there is');
}

function isBackwards(from: ReadonlyMap<number, bigint> | bigint, to: ReadonlyMap<number, bigint> | bigint): boolean {
  if (typeof from === 'bigint') return typeof to === 'bigint' && to < from;
  if (typeof to === 'bigint') return false;
  return [...from].some(([partition, offset]) => (to.get(partition) ?? offset) < offset);
}

interface Held {
  /** Something of the topic has gone. */
  readonly cut: boolean;
  readonly earliest: OffsetMap;
  /** Oldest event that is held; null = the topic is empty now. */
  readonly first: { readonly epoch: number; readonly lsn: bigint; readonly committedAtMicros: bigint } | null;
}

interface Context {
  readonly ports: RangePorts;
  readonly table: string;
  readonly topic: string;
  readonly bounds: ReadonlyMap<number, PartitionBounds>;
  readonly held: Held;
}

async function heldBy(reader: LogReader, topic: string, bounds: ReadonlyMap<number, PartitionBounds>): Promise<Held> {
  const earliest = new Map<number, LogOffset>();
  let first: Held['first'] = null;
  for (const [partition, found] of bounds) {
    earliest.set(partition, found.earliest);
    if (found.earliest >= found.end) continue;
    const header = await firstHeader(reader, topic, partition, found);
    if (header === null) continue;
    const here = {
      epoch: header.readUInt32BE(4),
      lsn: header.readBigUInt64BE(8),
      committedAtMicros: header.readBigInt64BE(24),
    };
    if (first === null || here.epoch < first.epoch || (here.epoch === first.epoch && here.lsn < first.lsn))
      first = here;
  }
  return { cut: [...earliest.values()].some((offset) => offset > 0n), earliest, first };
}

async function firstHeader(
  reader: LogReader,
  topic: string,
  partition: number,
  { earliest, end }: PartitionBounds,
): Promise<Buffer | null> {
  for await (const batch of reader.read(topic, partition, earliest, end, { batchBytesMax: 64 * 1024 }))
    for (const header of batch.headers) if (header !== null && header.length >= RECORD_HEADER_BYTES) return header;
  return null;
}

type Point =
  | Exclude<RangePoint, { readonly kind: 'offset' }>
  | { readonly kind: 'offset'; readonly offsets: OffsetMap };

/** Offsets by partition, checked against the topic; a batch becomes the offsets or the mark that its history names. */
async function asOffsets(context: Context, flag: '--from' | '--to', point: RangePoint): Promise<Wanted> {
  const { bounds, table } = context;
  if (point.kind === 'batch') {
    const place = await context.ports.findBatch(table, point.batch);
    return { point, place };
  }
  if (point.kind !== 'offset') return { point, place: null };
  const { offsets } = point;
  if (typeof offsets === 'bigint' && bounds.size > 1)
    throw new ConfigError(
      `${table} has ${bounds.size} partitions, and ${flag} names one offset`,
      `name each, such as offset:${[...bounds.keys()].map((partition) => `${partition}=${offsets}`).join(',')}`,
    );
  const named = typeof offsets === 'bigint' ? new Map([...bounds.keys()].map((key) => [key, offsets])) : offsets;
  for (const [partition, offset] of named) {
    const found = bounds.get(partition);
    if (found === undefined)
      throw new ConfigError(`${table} has no partition ${partition}`, `it has ${[...bounds.keys()].join(', ')}`);
    if (offset > found.end)
      throw new ConfigError(
        `${flag}: partition ${partition} of ${table} ends at offset ${found.end}, before ${offset}`,
        'name an offset that exists',
      );
    if (flag === '--from' && offset < found.earliest) throw gone(context, `offset ${offset} of partition ${partition}`);
  }
  const missing = [...bounds.keys()].filter((partition) => !named.has(partition));
  if (missing.length > 0)
    throw new ConfigError(`${flag} leaves out partition ${missing.join(', ')} of ${table}`, 'name an offset of each');
  return { point: { kind: 'offset', offsets: named as OffsetMap }, place: null };
}

interface Wanted {
  readonly point: Point;
  readonly place: BatchPlace | null;
}

interface Search {
  visit(place: MarkedPlace): void;
  done(): ReplayRange;
}

function createSearch(context: Context, from: Wanted, to: Wanted, goesOn: boolean): Search {
  const { table, topic, held } = context;
  let newest: MarkedPlace | null = null;
  let closed: MarkedPlace | null = null;
  let end: MarkedPlace | null = null;
  /** Newest place before what `--from` names; fixed offsets are looked for as they stand. */
  let before: MarkedPlace | null = null;
  let batch: MarkedPlace | null = null;
  let passed = false;
  const fixed = fixedStart(context, from.point);
  const within: { offsets: OffsetMap; sequence: number; place: MarkedPlace | null } = {
    offsets: fixed ?? new Map(),
    sequence: 0,
    place: null,
  };
  const places: { readonly sequence: number; readonly nextOffsets: OffsetMap }[] = [];
  const reads = createReadSearch(table, held.earliest);

  return {
    visit(place) {
      const { mark } = place;
      reads.visit(place, newest);
      // A source that was restored begins with lower LSNs again: the newest stretch is meant.
      if (newest !== null && newest.mark.epoch < mark.epoch && from.point.kind === 'lsn') passed = false;
      if (newest !== null && newest.mark.epoch < mark.epoch && to.point.kind === 'lsn') end = null;
      newest = place;
      if (!mark.open) closed = place;
      if (!passed && isBeforePoint(mark, from.point)) before = place;
      else passed = true;
      if (from.place !== null && mark.sequence === from.place.mark) batch = place;
      if (fixed !== null && isWithin(place.nextOffsets, fixed)) within.sequence = mark.sequence;
      if (from.place !== null && (places.at(-1)?.nextOffsets !== place.nextOffsets || places.length === 0))
        places.push({ sequence: mark.sequence, nextOffsets: place.nextOffsets });
      if (places.length > PLACES_MAX) places.splice(0, PLACES_MAX / 2);
      if (end === null && isAtPoint(place, to)) end = place;
    },
    done() {
      const last = to.point.kind === 'now' ? (closed ?? newest) : end;
      if (newest === null)
        throw new ConfigError(`the log has no mark of ${table} yet`, 'start `sluice run`: its reader writes marks');
      if (last === null) throw notReached(table, newest, to.point);
      const start = ((): RangeStart & { readonly base: ReplayRange['base'] } => {
        const { kind } = from.point;
        if (kind === 'beginning' && held.cut) {
          const read = reads.found();
          if (read === null) throw gone(context, 'the beginning');
          return { ...read, base: 'read' };
        }
        if (fixed !== null) {
          const base = isWithin(fixed, zeroOf(fixed)) ? 'beginning' : 'middle';
          return { nextOffsets: fixed, markSequence: within.sequence, base };
        }
        if (from.place !== null) return { ...batchStart(context, from.place, batch, places), base: 'middle' };
        assertHeld(context, from.point, newest);
        if (before !== null) {
          const nextOffsets = later(before.nextOffsets, held.earliest);
          return { nextOffsets, markSequence: before.mark.sequence, base: 'middle' };
        }
        return { nextOffsets: held.earliest, markSequence: 0, base: held.cut ? 'middle' : 'beginning' };
      })();
      if (!goesOn && !isWithin(start.nextOffsets, later(last.nextOffsets, zeroOf(start.nextOffsets))))
        throw new ConfigError(
          `--to lies before --from: ${offsetsText(last.nextOffsets)} before ${offsetsText(start.nextOffsets)}`,
          'name a later end, or leave --to out for all there is',
        );
      return {
        table,
        topic,
        start: { nextOffsets: start.nextOffsets, markSequence: start.markSequence },
        end: last,
        base: start.base,
        records: distance(start.nextOffsets, last.nextOffsets),
      };
    },
  };
}

/** Places remembered on the way to a batch; older ones are as good a place to begin looking for cuts. */
const PLACES_MAX = 50_000;

function fixedStart({ held }: Context, point: Point): OffsetMap | null {
  if (point.kind === 'offset') return point.offsets;
  if (point.kind === 'earliest') return held.earliest;
  return point.kind === 'beginning' && !held.cut ? held.earliest : null;
}

/** Offsets from which the batch read; those partitions that it did not read stand where it ended. */
function batchStart(
  context: Context,
  place: BatchPlace,
  at: MarkedPlace | null,
  places: readonly { readonly sequence: number; readonly nextOffsets: OffsetMap }[],
): RangeStart {
  if (at === null) throw gone(context, `mark ${place.mark}, at which that batch ended,`);
  const nextOffsets = new Map(at.nextOffsets);
  for (const [partition, offset] of place.from) nextOffsets.set(partition, offset);
  for (const [partition, offset] of nextOffsets)
    if (offset < (context.bounds.get(partition)?.earliest ?? 0n))
      throw gone(context, `offset ${offset} of partition ${partition}`);
  const found = places.findLast((each) => isWithin(each.nextOffsets, nextOffsets));
  return { nextOffsets, markSequence: found?.sequence ?? 0 };
}

function isBeforePoint(mark: Mark, point: Point): boolean {
  if (point.kind === 'lsn') return mark.lsn < point.lsn;
  return point.kind === 'time' && mark.sourceTimeMicros < point.micros;
}

function isAtPoint({ mark, nextOffsets }: MarkedPlace, { point, place }: Wanted): boolean {
  switch (point.kind) {
    case 'lsn':
      return mark.lsn >= point.lsn;
    case 'time':
      return mark.sourceTimeMicros >= point.micros;
    case 'offset':
      return isWithin(point.offsets, nextOffsets);
    case 'batch':
      return place !== null && mark.sequence >= place.mark;
    case 'beginning':
    case 'earliest':
    case 'now':
      return false;
  }
}

/** An LSN or time older than what is held, or newer than what there is. */
function assertHeld(context: Context, point: Point, newest: MarkedPlace): void {
  const { held, table } = context;
  if (point.kind === 'lsn') {
    if (point.lsn > newest.mark.lsn) throw notReached(table, newest, point);
    if (held.cut && (held.first === null || point.lsn < held.first.lsn))
      throw gone(context, `LSN ${formatLsn(point.lsn)}`);
  }
  if (point.kind === 'time') {
    if (point.micros > newest.mark.sourceTimeMicros) throw notReached(table, newest, point);
    if (held.cut && (held.first === null || point.micros < held.first.committedAtMicros))
      throw gone(context, `the events since ${timeText(point.micros)}`);
  }
}

function notReached(table: string, newest: MarkedPlace, point: Point): ConfigError {
  const { mark, nextOffsets } = newest;
  const what =
    point.kind === 'lsn'
      ? `LSN ${formatLsn(point.lsn)}`
      : point.kind === 'time'
        ? timeText(point.micros)
        : 'that position';
  return new ConfigError(
    `the log has not come to ${what} for ${table}: it reaches LSN ${formatLsn(mark.lsn)}, ${timeText(mark.sourceTimeMicros)}, offset ${offsetsText(nextOffsets)}`,
    'name a position that lies before it',
  );
}

function gone({ table, held }: Context, what: string): SluiceError {
  const missing = [...held.earliest]
    .filter(([, earliest]) => earliest > 0n)
    .map(([partition, earliest]) => `offsets 0 to ${earliest - 1n} of partition ${partition}`)
    .join(', ');
  const lsn = held.first === null ? '' : `, LSN below ${formatLsn(held.first.lsn as Mark['lsn'])}`;
  return new SluiceError(
    'REPLAY_RANGE_GONE',
    `the log no longer holds ${what} of ${table}: missing are ${missing === '' ? 'its marks' : missing}${lsn}`,
    {
      exit: ExitCode.namedState,
      remedy: `\`sluice backfill ${table}\` reads the table whole into the log, and a replay from the beginning then begins there; --from earliest replays what the log still holds`,
    },
  );
}

function timeText(micros: bigint): string {
  const ms = Number(micros / 1000n);
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : `${micros} µs`;
}

const zeroOf = (offsets: OffsetMap): OffsetMap =>
  new Map([...offsets.keys()].map((partition) => [partition, 0n as LogOffset]));

function later(a: OffsetMap, b: OffsetMap): OffsetMap {
  const merged = new Map(a);
  for (const [partition, offset] of b) if (offset > (merged.get(partition) ?? -1n)) merged.set(partition, offset);
  return merged;
}

/** The newest whole read of the table that lies in the log from its first row to its last. */
function createReadSearch(table: string, earliest: OffsetMap) {
  let begun: RangeStart | null = null;
  let reading = false;
  let whole: RangeStart | null = null;
  return {
    visit({ mark }: MarkedPlace, previous: MarkedPlace | null): void {
      const now = mark.snapshotting.includes(table);
      if (now && !reading) begun = previous === null ? null : startAt(previous, earliest);
      if (!now && reading && begun !== null) whole = begun;
      reading = now;
    },
    found: (): RangeStart | null => whole,
  };
}

/** Null: rows of the read itself may have gone. */
function startAt({ mark, nextOffsets }: MarkedPlace, earliest: OffsetMap): RangeStart | null {
  if (!isWithin(earliest, nextOffsets)) return null;
  return { nextOffsets, markSequence: mark.sequence };
}
