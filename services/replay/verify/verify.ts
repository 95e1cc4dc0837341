/**
 * Compares source and lake by row contents at a known LSN, while writes go on.
 *
 *   1. Take a REPEATABLE READ snapshot of the source and note the WAL position after it; wait until the lake has everything
 *      up to there, and take that version of the lake.
 *   2. Read both: per bucket of the key's hash a count and an order-independent sum of row hashes. Buckets that agree are
 *      equal.
 *   3. Of the buckets that differ, read keys and row hashes of both sides; the keys that differ are candidates: a write
 *      between the snapshot and the lake's version looks like a difference.
 *   4. Re-check candidates alone, each round at a newer LSN, until a key is equal, or both images stood still for a whole
 *      round and still differ. A row that went back and forth meanwhile is known by its version.
 */
import type { TableShape } from '../../log/event.ts';
import { compareBuckets, groupBuckets, sampledShare, type BucketSums, type Sample } from './buckets.ts';
import { differingCells, sameImage, type Images, type RowImage } from './row-image.ts';

export interface SourceSnapshot {
  /** WAL position by which everything this snapshot sees is in the WAL. */
  readonly lsn: bigint;
  /** Sums of whole buckets, of a sample or of all; `rows` are those that the condition selects. */
  sums(buckets: number, sample: Sample | null): Promise<BucketSums>;
  /** Rows of these buckets. */
  images(buckets: number, wanted: ReadonlySet<number>): Promise<Images>;
  /** Rows of these keys (canonical key texts). */
  rows(keys: readonly string[]): Promise<Images>;
  /** Those of these keys whose row the user's condition selects. */
  selected(keys: readonly string[]): Promise<ReadonlySet<string>>;
  /** Keys of the lake's rows that the condition would select; null = it cannot be asked, or there is none. */
  selects(texts: ReadonlyMap<string, string>): Promise<ReadonlySet<string> | null>;
  close(): Promise<void>;
}

export interface LakeSnapshot {
  readonly version: bigint;
  sums(buckets: number, sample: Sample | null): Promise<BucketSums>;
  images(buckets: number, wanted: ReadonlySet<number>): Promise<Images>;
  rows(keys: readonly string[]): Promise<Images>;
  /** Canonical texts of these rows. */
  texts(keys: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

export interface VerifyPorts {
  readonly source: (table: TableShape) => Promise<SourceSnapshot>;
  /** Resolves once the lake holds every event up to this LSN. */
  readonly reached: (lsn: bigint) => Promise<void>;
  readonly lake: (table: TableShape) => Promise<LakeSnapshot>;
  /** Canonical keys whose events are parked: their rows may differ by right. */
  readonly parked: (table: TableShape) => Promise<ReadonlySet<string>>;
}

export type DifferenceKind = 'differs' | 'missing' | 'extra';
export interface Difference {
  readonly kind: DifferenceKind;
  /** Canonical key text; the caller masks it before showing. */
  readonly key: string;
  readonly source: RowImage | null;
  readonly lake: RowImage | null;
  /** Of rows that differ: the columns that do. */
  readonly columns: readonly string[];
}

export interface TableVerification {
  readonly table: string;
  readonly equal: boolean;
  readonly sourceRows: number;
  readonly lakeRows: number;
  /** Share of the keys that was compared, when it was a sample. */
  readonly sampled: number | null;
  readonly lsn: bigint;
  readonly lakeVersion: bigint;
  /** Keys that differ and are parked in quarantine: reported, not counted as differences. */
  readonly parkedKeys: number;
  readonly differences: readonly Difference[];
  /** Keys still moving when the rounds ran out; neither equal nor different. */
  readonly unsettled: number;
  readonly rounds: number;
  /** The lake's key is a hash: a row cannot be asked for by it at the source. */
  readonly keyReplaced?: boolean;
}

export interface VerifyOptions {
  readonly buckets: number;
  readonly roundsMax: number;
  /** Differences kept with their images; the rest are counted by kind only. */
  readonly differencesMax: number;
  /** Rows of both sides held at once while differing buckets are compared. */
  readonly imagesMax: number;
  /** Candidates re-checked at once. */
  readonly candidatesMax: number;
  /** Compare only these; null = all. */
  readonly sample: Sample | null;
  /** A condition restricts what is compared: differences outside it do not count. */
  readonly conditional: boolean;
}

export const VERIFY_DEFAULTS: VerifyOptions = {
  buckets: 65_536,
  roundsMax: 20,
  differencesMax: 1_000,
  imagesMax: 100_000,
  candidatesMax: 20_000,
  sample: null,
  conditional: false,
};

export async function verifyTable(
  table: TableShape,
  ports: VerifyPorts,
  options: VerifyOptions = VERIFY_DEFAULTS,
): Promise<TableVerification> {
  const first = await firstPass(table, ports, options);
  const keys = [...first.candidates];
  let settled: Difference[] = [];
  let unsettled = 0;
  let rounds = 0;
  const parkedBefore = keys.length > 0 ? await ports.parked(table) : new Set<string>();
  // In parts, so that the images in hand stay few; enough differences to show make the rest of no interest.
  for (let at = 0; at < keys.length && settled.length < options.differencesMax; at += options.candidatesMax) {
    const part = await settle(table, ports, keys.slice(at, at + options.candidatesMax), options);
    settled.push(...part.settled);
    unsettled += part.unsettled;
    rounds = Math.max(rounds, part.rounds);
  }
  // What was not looked at is not called equal.
  if (first.cut && settled.length === 0) unsettled += 1;
  const parked = settled.length > 0 ? await ports.parked(table) : new Set<string>();
  // Released since they were compared: the lake may have them only now.
  const released = new Set(settled.map(({ key }) => key).filter((key) => parkedBefore.has(key) && !parked.has(key)));
  if (released.size > 0) {
    const again = await settle(table, ports, [...released], options);
    settled = [...settled.filter(({ key }) => !released.has(key)), ...again.settled];
    unsettled += again.unsettled;
    rounds = Math.max(rounds, again.rounds);
  }
  const differences = settled.filter((difference) => !parked.has(difference.key));
  return {
    table: `${table.schema}.${table.table}`,
    equal: differences.length === 0 && unsettled === 0,
    sourceRows: first.sourceRows,
    // Which of the lake's rows the condition selects is known of the differing ones alone.
    lakeRows: options.conditional
      ? first.sourceRows - count(differences, 'missing') + count(differences, 'extra')
      : first.lakeRows,
    sampled: options.sample === null ? null : sampledShare(options.sample),
    lsn: first.lsn,
    lakeVersion: first.lakeVersion,
    parkedKeys: settled.length - differences.length,
    differences: differences.slice(0, options.differencesMax),
    unsettled,
    rounds,
  };
}

interface Settled {
  readonly settled: readonly Difference[];
  readonly unsettled: number;
  readonly rounds: number;
}

/** Looks at candidates again, each round at a newer LSN, until each is equal or both its images stood still and differ. */
async function settle(
  table: TableShape,
  ports: VerifyPorts,
  keys: readonly string[],
  options: VerifyOptions,
): Promise<Settled> {
  let candidates: readonly string[] = keys;
  let previous: Map<string, string> | null = null;
  let settled: Difference[] = [];
  let moving = 0;
  let rounds = 0;
  while (candidates.length > 0 && rounds < options.roundsMax) {
    rounds += 1;
    const now = await recheck(table, ports, candidates, options.conditional);
    const seen = new Map<string, string>();
    settled = [];
    moving = 0;
    for (const difference of now) {
      const print = [difference.source, difference.lake]
        .map((image) => `${image?.copies} ${image?.print} ${image?.version}`)
        .join(' ');
      seen.set(difference.key, print);
      if (previous?.get(difference.key) === print) settled.push(difference);
      else moving += 1;
    }
    previous = seen;
    candidates = moving === 0 ? [] : now.map(({ key }) => key);
  }
  return { settled, unsettled: moving, rounds };
}

const count = (differences: readonly Difference[], kind: DifferenceKind): number =>
  differences.reduce((sum, each) => sum + (each.kind === kind ? 1 : 0), 0);

/** So many parts of candidates are kept, as keys alone. */
const CANDIDATE_PARTS = 20;

interface FirstPass {
  readonly lsn: bigint;
  readonly lakeVersion: bigint;
  readonly sourceRows: number;
  readonly lakeRows: number;
  readonly candidates: Set<string>;
  /** There were more: the rest was not looked at. */
  readonly cut: boolean;
}

async function firstPass(table: TableShape, ports: VerifyPorts, options: VerifyOptions): Promise<FirstPass> {
  const { sample } = options;
  const buckets = sample?.buckets ?? options.buckets;
  const source = await ports.source(table);
  try {
    // Both versions are taken before either is read: however long the reading takes, only what was written in between can
    // look like a difference.
    await ports.reached(source.lsn);
    const lake = await ports.lake(table);
    const [sourceSums, lakeSums] = await Promise.all([source.sums(buckets, sample), lake.sums(buckets, sample)]);
    const wanted = compareBuckets(sourceSums, lakeSums);
    const candidates = new Set<string>();
    let cut = false;
    if (wanted.size > 0) {
      for (const group of groupBuckets(wanted, [sourceSums, lakeSums], options.imagesMax)) {
        const [left, right] = await Promise.all([source.images(buckets, group), lake.images(buckets, group)]);
        for (const difference of differencesOf(table, left, right)) candidates.add(difference.key);
        cut = candidates.size >= options.candidatesMax * CANDIDATE_PARTS;
        if (cut) break;
      }
    }
    return {
      lsn: source.lsn,
      lakeVersion: lake.version,
      sourceRows: sourceSums.rows,
      lakeRows: lakeSums.rows,
      candidates,
      cut,
    };
  } finally {
    await source.close();
  }
}

async function recheck(
  table: TableShape,
  ports: VerifyPorts,
  keys: readonly string[],
  conditional: boolean,
): Promise<Difference[]> {
  const source = await ports.source(table);
  try {
    await ports.reached(source.lsn);
    const lake = await ports.lake(table);
    const [left, right] = await Promise.all([source.rows(keys), lake.rows(keys)]);
    const found = differencesOf(table, left, right);
    return conditional && found.length > 0 ? await withinCondition(found, source, lake) : found;
  } finally {
    await source.close();
  }
}

/** Rows of the source that the condition selects, and rows that only the lake has and that it would select. */
async function withinCondition(
  found: readonly Difference[],
  source: SourceSnapshot,
  lake: LakeSnapshot,
): Promise<Difference[]> {
  const keysOf = (extra: boolean): string[] =>
    found.filter(({ kind }) => (kind === 'extra') === extra).map(({ key }) => key);
  const [here, there] = [keysOf(false), keysOf(true)];
  const selected = here.length === 0 ? new Set<string>() : await source.selected(here);
  let selectedExtras: ReadonlySet<string> | null = new Set<string>();
  for (let at = 0; at < there.length && selectedExtras !== null; at += EXTRAS_PER_LOOK) {
    const more = await source.selects(await lake.texts(there.slice(at, at + EXTRAS_PER_LOOK)));
    selectedExtras = more === null ? null : new Set([...selectedExtras, ...more]);
  }
  return found.filter(({ kind, key }) => (kind === 'extra' ? selectedExtras?.has(key) === true : selected.has(key)));
}

/** Rows of the lake whose texts are held at once. */
const EXTRAS_PER_LOOK = 2_000;

function differencesOf(table: TableShape, source: Images, lake: Images): Difference[] {
  const found: Difference[] = [];
  const names = (a: RowImage, b: RowImage): string[] =>
    differingCells(a, b).map((index) => table.columns[index]?.name ?? '');
  for (const [key, image] of source) {
    const other = lake.get(key);
    if (other === undefined) found.push({ kind: 'missing', key, source: image, lake: null, columns: [] });
    else if (!sameImage(other, image))
      found.push({ kind: 'differs', key, source: image, lake: other, columns: names(image, other) });
  }
  for (const [key, image] of lake) {
    if (!source.has(key)) found.push({ kind: 'extra', key, source: null, lake: image, columns: [] });
  }
  return found;
}
