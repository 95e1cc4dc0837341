/** The source side of verify: sums, images and rows in one REPEATABLE READ snapshot, within a byte rate. */
import type { Hasher } from '../../../contracts/engine/privacy.ts';
import type { ColumnShape, TableShape } from '../../log/event.ts';
import type { SourceSession, TextRow } from '../../reader/source.ts';
import { quoteIdent, quoteList, quoteLiteral, quoteTable } from '../../reader/sql-text.ts';
import { bucketOf, rowHash, type BucketSums } from './buckets.ts';
import { bucketExpression, canonicalCell, canonicalRow, rowHashExpression } from './canonical-source.ts';
import { hashedRows, isHashed } from './hashed-source.ts';
import type { Images, SourceSnapshot } from './verify.ts';

export interface SourceSnapshotOptions {
  readonly shape: TableShape;
  /** Columns that the lake holds as PostgreSQL's text. */
  readonly asText: ReadonlySet<string>;
  /** All columns of a table without key, whose rows are known by the hash of what they hold; null where there is a key. */
  readonly hashed?: readonly string[] | null;
  /** SQL predicate of the user, or null. */
  readonly where: string | null;
  /** Bytes of the table read a second, or null. */
  readonly bytesPerSecond: number | null;
  readonly sleep: (ms: number) => Promise<void>;
  /**
   * Writes a transactional message with the reader's mark prefix, from another session, and resolves with its LSN: every
   * commit that the snapshot sees lies before it, and the lake learns of it at once, however idle the source is.
   */
  readonly markBehind: () => Promise<bigint>;
  /** Makes the hashes of columns that have one in the lake; null = the shape has none. */
  readonly hasher?: Hasher | null;
  /** Bytes of heap read by one statement. */
  readonly chunkBytes?: number;
}

const PAGE_BYTES = 8192;
const KEYS_PER_QUERY = 1_000;

export async function openSourceSnapshot(
  session: SourceSession,
  options: SourceSnapshotOptions,
): Promise<SourceSnapshot> {
  await session.query('begin isolation level repeatable read read only');
  // The first statement takes the snapshot; a message written after it lies behind every commit that the snapshot sees.
  await session.query('select pg_current_snapshot()::text');
  const lsn = await options.markBehind();
  const { shape } = options;
  const keys = shape.columns
    .filter((column) => column.keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition);
  const hashed = options.hashed ?? null;
  if (keys.length === 0 && hashed === null)
    throw new TypeError(`${shape.schema}.${shape.table} has no key to compare by`);
  const keyText =
    hashed === null
      ? keys.map((column) => canonicalCell(column, options.asText.has(column.name))).join(' || ')
      : rowHashKey(hashed);
  const counted = hashed !== null;
  const rowText = canonicalRow(shape.columns, options.asText);
  const relation = quoteTable(shape.schema, shape.table);
  const filter = options.where === null ? 'true' : `(${options.where})`;

  async function* chunks(): AsyncGenerator<string> {
    if (options.bytesPerSecond === null || (await isPartitioned(session, relation))) {
      yield 'true';
      return;
    }
    const [size] = await session.query(
      `select (pg_relation_size(${quoteLiteral(relation)}::regclass) / ${PAGE_BYTES})::text as pages`,
    );
    const pages = Number(size?.['pages'] ?? '0');
    const step = Math.max(1, Math.floor((options.chunkBytes ?? 8_388_608) / PAGE_BYTES));
    for (let page = 0; page <= pages; page += step) {
      const last = page + step > pages;
      yield `ctid >= '(${page},0)'::tid${last ? '' : ` and ctid < '(${page + step},0)'::tid`}`;
      await options.sleep((Math.min(step, pages - page) * PAGE_BYTES * 1_000) / options.bytesPerSecond);
    }
  }

  const close = async (): Promise<void> => {
    await session.query('rollback');
    await session.close();
  };
  if (shape.columns.some(isHashed)) {
    const { hasher } = options;
    if (hasher === undefined || hasher === null)
      throw new TypeError('hashed columns are compared with their key alone');
    const source = hashedRows(session, shape.columns, options.asText, hasher);
    const eachRow = async (visit: (key: string, text: string) => void): Promise<void> => {
      for await (const chunk of chunks()) await source.each(`${relation} where ${filter} and ${chunk}`, visit);
    };
    return { lsn, close, ...hashedSnapshot(eachRow) };
  }

  return {
    lsn,
    close,
    async sums(buckets) {
      const byBucket = new Map<number, { rows: number; sum: bigint }>();
      let rows = 0;
      for await (const chunk of chunks()) {
        const found = await session.query(
          `select b::text as b, count(*)::text as n, sum(h)::text as h from (
             select ${bucketExpression(keyText, buckets)} as b, ${rowHashExpression(rowText)} as h
             from ${relation} where ${filter} and ${chunk}) s group by b`,
        );
        for (const { b: bucket, n: count, h: sum } of found) {
          const old = byBucket.get(Number(bucket)) ?? { rows: 0, sum: 0n };
          byBucket.set(Number(bucket), { rows: old.rows + Number(count), sum: old.sum + BigInt(sum ?? '0') });
          rows += Number(count);
        }
      }
      return { rows, byBucket } satisfies BucketSums;
    },
    async images(buckets, wanted) {
      const images: Images = new Map();
      for await (const chunk of chunks()) {
        const found = await session.query(
          `select ${keyText} as k, ${rowText} as t from ${relation}
           where ${filter} and ${chunk} and ${bucketExpression(keyText, buckets)} in (${quoteList([...wanted])})`,
        );
        addImages(images, found, counted);
      }
      return images;
    },
    async rows(wantedKeys) {
      const images: Images = new Map();
      for (let i = 0; i < wantedKeys.length; i += KEYS_PER_QUERY) {
        const part = wantedKeys.slice(i, i + KEYS_PER_QUERY);
        if (counted) {
          addImages(
            images,
            await session.query(
              `select ${keyText} as k, ${rowText} as t from ${relation} where ${filter} and ${keyText} in (${quoteList(part)})`,
            ),
            counted,
          );
          continue;
        }
        const values = part.map((key) => `(${quoteList(splitKey(key))})`).join(', ');
        const match = keys.map((column, index) => keyMatch(column, `k.c${index}`, options.asText)).join(' and ');
        const names = keys.map((_, index) => `c${index}`).join(', ');
        const found = await session.query(
          `select ${keyText} as k, ${rowText} as t from ${relation} t
           where ${filter} and exists (select 1 from (values ${values}) as k(${names}) where ${match})`,
        );
        addImages(images, found, counted);
      }
      return images;
    },
  };
}

/** Sums and images from the rows themselves. */
function hashedSnapshot(
  eachRow: (visit: (key: string, text: string) => void) => Promise<void>,
): Pick<SourceSnapshot, 'sums' | 'images' | 'rows'> {
  const pick = async (wanted: (key: string) => boolean): Promise<Images> => {
    const images: Images = new Map();
    await eachRow((key, text) => {
      if (wanted(key)) images.set(key, { text });
    });
    return images;
  };
  return {
    async sums(buckets) {
      const byBucket = new Map<number, { rows: number; sum: bigint }>();
      let rows = 0;
      await eachRow((key, text) => {
        const bucket = bucketOf(key, buckets);
        const old = byBucket.get(bucket);
        if (old === undefined) byBucket.set(bucket, { rows: 1, sum: rowHash(text) });
        else {
          old.rows += 1;
          old.sum += rowHash(text);
        }
        rows += 1;
      });
      return { rows, byBucket };
    },
    images: (buckets, wanted) => pick((key) => wanted.has(bucketOf(key, buckets))),
    rows(keys) {
      const wanted = new Set(keys);
      return pick((key) => wanted.has(key));
    },
  };
}

/** Types whose canonical text is not their input text are compared in canonical form, all others through the key's index. */
function keyMatch(column: ColumnShape, cell: string, asText: ReadonlySet<string>): string {
  const type = column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType;
  if (/^(bytea|real|double precision)/.test(type) || column.kind === 'array') {
    return `${canonicalCell(column, asText.has(column.name))} = octet_length(${cell}) || ':' || ${cell}`;
  }
  return `t.${quoteIdent(column.name)} = ${cell}::${type}`;
}

function addImages(images: Images, rows: readonly TextRow[], counted: boolean): void {
  for (const { k, t } of rows) {
    if (counted) addEqual(images, k ?? '', () => t ?? '');
    else images.set(k ?? '', { text: t ?? '' });
  }
}

const TIMES = ' × ';

/** One more row of a table without key: its image says how many equal ones there are. */
export function addEqual(images: Images, key: string, text: () => string): void {
  const known = images.get(key);
  if (known === undefined) {
    images.set(key, { text: `1${TIMES}${text()}` });
    return;
  }
  const at = known.text.indexOf(TIMES);
  images.set(key, { text: `${Number(known.text.slice(0, at)) + 1}${known.text.slice(at)}` });
}

/** The row's hash as the reader makes it (bag-rows.ts), in the form of a canonical key. */
function rowHashKey(columns: readonly string[]): string {
  const bytes = (text: string): string => `int4send(octet_length(${text})) || ${text}`;
  const cells = columns.map((column) => {
    const name = quoteIdent(column);
    const value = `convert_to(case when ${name} is distinct from null then concat(${name}) end, 'UTF8')`;
    return `coalesce(${bytes(`convert_to(${quoteLiteral(column)}, 'UTF8')`)} || ${bytes(value)}, ''::bytea)`;
  });
  return `'32:' || left(encode(sha256(${cells.join(' || ')}), 'hex'), 32)`;
}

/** Cell texts of a canonical key (`3:abc1:7` → ['abc', '7']). */
export function splitKey(key: string): string[] {
  const bytes = Buffer.from(key);
  const cells: string[] = [];
  let at = 0;
  while (at < bytes.length) {
    const colon = bytes.indexOf(0x3a, at);
    const length = Number(bytes.toString('latin1', at, colon));
    cells.push(bytes.toString('utf8', colon + 1, colon + 1 + length));
    at = colon + 1 + length;
  }
  return cells;
}

async function isPartitioned(session: SourceSession, relation: string): Promise<boolean> {
  const [row] = await session.query(
    `select relkind::text as kind from pg_class where oid = ${quoteLiteral(relation)}::regclass`,
  );
  return row?.['kind'] === 'p';
}
