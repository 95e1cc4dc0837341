/** The source side of verify: sums, images and rows in one REPEATABLE READ snapshot, within a byte rate. */
import type { Hasher } from '../../../contracts/engine/privacy.ts';
import type { ColumnShape, TableShape } from '../../log/event.ts';
import { ownRowsOf } from '../../reader/catalog.ts';
import type { SourceSession, TextRow } from '../../reader/source.ts';
import { quoteIdent, quoteList, quoteLiteral, quoteTable } from '../../reader/sql-text.ts';
import {
  addToBucket,
  bucketOf,
  inSample,
  rowHash,
  type BucketSums,
  type BucketTotals,
  type Sample,
} from './buckets.ts';
import { bucketExpression, canonicalCell, canonicalRow, rowHashExpression } from './canonical-source.ts';
import { hashedRows, isHashed } from './hashed-source.ts';
import { lakeRowsSql } from './lake-rows-sql.ts';
import { addImage, imageOf, type Images } from './row-image.ts';
import { ReaderError } from '../../reader/reader-error.ts';
import type { SourceSnapshot } from './verify.ts';

export interface SourceSnapshotOptions {
  readonly shape: TableShape;
  /** Columns that the lake holds as PostgreSQL's text. */
  readonly asText: ReadonlySet<string>;
  /** All columns of a table without key, whose rows are known by the hash of what they hold; null where there is a key. */
  readonly hashed?: readonly string[] | null;
  /** SQL predicate of the user, or null. */
  readonly where: string | null;
  /** Row filter of the publication: the lake has no other rows. */
  readonly rowFilter?: string | null;
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
const ROWS_PER_QUESTION = 200;

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
  const rowText = canonicalRow(shape.columns, options.asText);
  const relation = quoteTable(shape.schema, shape.table);
  const from = await ownRowsOf(session, shape.schema, shape.table);
  const { where, rowFilter = null } = options;
  const published = rowFilter === null ? 'true' : `(${rowFilter})`;
  const selected = where === null ? 'true' : `coalesce((${where}), false)`;
  const sampled = (sample: Sample | null): string =>
    sample === null
      ? 'true'
      : `(${sample.runs.map(({ from, to }) => `${bucketExpression(keyText, sample.buckets)} between ${from} and ${to}`).join(' or ')})`;

  /** Pieces of the table, each as what stands behind FROM; between two of them the byte rate is kept. */
  async function* chunks(): AsyncGenerator<string> {
    const { bytesPerSecond } = options;
    if (bytesPerSecond === null) {
      yield `${from} where ${published}`;
      return;
    }
    const heaps = await session.query(
      `select format('%I.%I', n.nspname, c.relname) as heap, (pg_relation_size(c.oid) / ${PAGE_BYTES})::text as pages,
         pg_table_size(c.oid)::text as bytes
       from pg_partition_tree(${quoteLiteral(relation)}::regclass) t join pg_class c on c.oid = t.relid
         join pg_namespace n on n.oid = c.relnamespace where t.isleaf
       union all select format('%I.%I', n.nspname, c.relname), (pg_relation_size(c.oid) / ${PAGE_BYTES})::text, pg_table_size(c.oid)::text
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.oid = ${quoteLiteral(relation)}::regclass and c.relkind = 'r' and not c.relispartition`,
    );
    const [self] = await session.query(
      `select format('%I.%I', ${quoteLiteral(shape.schema)}::text, ${quoteLiteral(shape.table)}::text) as own`,
    );
    const own = self?.['own'];
    const seen = new Set<string>();
    for (const { heap, pages: pageText, bytes } of heaps) {
      if (heap === null || heap === undefined || seen.has(heap)) continue;
      seen.add(heap);
      const pages = Number(pageText ?? '0');
      // Values out of line are read with their rows: they count for the pages that point at them.
      const pageBytes = Math.max(PAGE_BYTES, Number(bytes ?? '0') / Math.max(1, pages));
      const step = Math.max(1, Math.floor(Math.min(options.chunkBytes ?? 8_388_608, bytesPerSecond) / pageBytes));
      for (let page = 0; page <= pages; page += step) {
        const last = page + step > pages;
        const beganMs = performance.now();
        yield `ONLY ${heap === own ? heap : `${heap} as ${quoteIdent(shape.table)}`} where ctid >= '(${page},0)'::tid${last ? '' : ` and ctid < '(${page + step},0)'::tid`} and ${published}`;
        const dueMs = (Math.min(step, pages - page) * pageBytes * 1_000) / bytesPerSecond;
        await options.sleep(Math.max(0, dueMs - (performance.now() - beganMs)));
      }
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
      for await (const chunk of chunks()) await source.each(`${chunk} and ${selected}`, visit);
    };
    return { lsn, close, ...hashedSnapshot(eachRow) };
  }

  return {
    lsn,
    close,
    async sums(buckets, sample) {
      const byBucket: BucketTotals = new Map();
      let rows = 0;
      for await (const chunk of chunks()) {
        // Whole buckets are summed, whatever the condition selects: only then do they compare with the lake's.
        const found = await session.query(
          `select b::text as b, count(*)::text as n, sum(h)::text as h, sum(s)::text as s from (
             select ${bucketExpression(keyText, buckets)} as b, ${rowHashExpression(rowText)} as h, ${selected}::int as s
             from ${chunk} and ${sampled(sample)}) s group by b`,
        );
        for (const { b: bucket, n: count, h: sum, s: chosen } of found) {
          addToBucket(byBucket, Number(bucket), Number(count), BigInt(sum ?? '0'));
          rows += Number(chosen);
        }
      }
      return { rows, byBucket } satisfies BucketSums;
    },
    async images(buckets, wanted) {
      const images: Images = new Map();
      for await (const chunk of chunks()) {
        const found = await session.query(
          `select ${keyText} as k, md5(convert_to(${rowText}, 'UTF8')) as t from ${chunk} and ${bucketExpression(keyText, buckets)} in (${quoteList([...wanted])})`,
        );
        for (const { k, t } of found) addImage(images, k ?? '', { print: t ?? '', cells: '', copies: 1 });
      }
      return images;
    },
    async rows(wantedKeys) {
      const images: Images = new Map();
      for (let i = 0; i < wantedKeys.length; i += KEYS_PER_QUERY) {
        const match = matching(wantedKeys.slice(i, i + KEYS_PER_QUERY));
        const found = await session.query(
          `select ${keyText} as k, ${rowText} as t, t.xmin::text as x from ${from} t where ${match} and ${published}`,
        );
        addRows(images, found);
      }
      return images;
    },
    async selected(wantedKeys) {
      const keysSelected = new Set<string>();
      for (let i = 0; i < wantedKeys.length; i += KEYS_PER_QUERY) {
        const match = matching(wantedKeys.slice(i, i + KEYS_PER_QUERY));
        // In a subquery of its own name, so that the condition may name the table.
        const found = await session.query(
          `select ${keyText} as k from ${from} where ${selected} and ${published} and ${keyText} in (select ${keyText} from ${from} t where ${match})`,
        );
        for (const { k } of found) keysSelected.add(k ?? '');
      }
      return keysSelected;
    },
    async selects(texts) {
      if (where === null) return null;
      const keysOf = [...texts.keys()];
      const chosen = new Set<string>();
      for (let i = 0; i < keysOf.length; i += ROWS_PER_QUESTION) {
        const part = keysOf.slice(i, i + ROWS_PER_QUESTION);
        const rows = lakeRowsSql(
          shape.table,
          shape.columns,
          options.asText,
          part.map((key) => texts.get(key) ?? ''),
        );
        await session.query('savepoint asked');
        try {
          for (const { r } of await session.query(`select _sluice_row::text as r from ${rows} where ${selected}`))
            chosen.add(part[Number(r)] ?? '');
        } catch (error) {
          if (!(error instanceof ReaderError) || error.retriable) throw error;
          // A condition over what the lake does not have (ctid, another column) cannot be asked.
          await session.query('rollback to savepoint asked');
          return null;
        }
      }
      return chosen;
    },
  };

  /** SQL condition that holds for the rows of these keys. */
  function matching(part: readonly string[]): string {
    if (hashed !== null) return `${keyText} in (${quoteList(part)})`;
    const values = part.map((key) => `(${quoteList(splitKey(key))})`).join(', ');
    const match = keys.map((column, index) => keyMatch(column, `k.c${index}`, options.asText)).join(' and ');
    const names = keys.map((_, index) => `c${index}`).join(', ');
    return `exists (select 1 from (values ${values}) as k(${names}) where ${match})`;
  }
}

/** Sums and images from the rows themselves. */
function hashedSnapshot(
  eachRow: (visit: (key: string, text: string) => void) => Promise<void>,
): Pick<SourceSnapshot, 'sums' | 'images' | 'rows' | 'selected' | 'selects'> {
  const pick = async (wanted: (key: string) => boolean): Promise<Images> => {
    const images: Images = new Map();
    await eachRow((key, text) => {
      if (wanted(key)) addImage(images, key, imageOf(text));
    });
    return images;
  };
  return {
    // Only the rows that the condition selects were read.
    selected: (keys) => Promise.resolve(new Set(keys)),
    selects: () => Promise.resolve(null),
    async sums(buckets, sample) {
      const byBucket: BucketTotals = new Map();
      let rows = 0;
      await eachRow((key, text) => {
        const bucket = bucketOf(key, buckets);
        if (!inSample(sample, bucket)) return;
        addToBucket(byBucket, bucket, 1, rowHash(text));
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

function addRows(images: Images, rows: readonly TextRow[]): void {
  for (const { k, t, x } of rows) addImage(images, k ?? '', imageOf(t ?? '', x ?? undefined));
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
