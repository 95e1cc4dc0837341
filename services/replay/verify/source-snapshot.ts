/** The source side of verify: sums, images and rows in one REPEATABLE READ snapshot, within a byte rate. */
import type { ColumnShape, TableShape } from '../../log/event.ts';
import type { SourceSession, TextRow } from '../../reader/source.ts';
import { quoteIdent, quoteList, quoteLiteral, quoteTable } from '../../reader/sql-text.ts';
import type { BucketSums } from './buckets.ts';
import { bucketExpression, canonicalCell, canonicalRow, rowHashExpression } from './canonical-source.ts';
import type { Images, SourceSnapshot } from './verify.ts';

export interface SourceSnapshotOptions {
  readonly shape: TableShape;
  /** Columns that the lake holds as PostgreSQL's text. */
  readonly asText: ReadonlySet<string>;
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
  if (keys.length === 0) throw new TypeError(`${shape.schema}.${shape.table} has no key to compare by`);
  const keyText = keys.map((column) => canonicalCell(column, options.asText.has(column.name))).join(' || ');
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

  return {
    lsn,
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
        addImages(images, found);
      }
      return images;
    },
    async rows(wantedKeys) {
      const images: Images = new Map();
      for (let i = 0; i < wantedKeys.length; i += KEYS_PER_QUERY) {
        const part = wantedKeys.slice(i, i + KEYS_PER_QUERY);
        const values = part.map((key) => `(${quoteList(splitKey(key))})`).join(', ');
        const match = keys.map((column, index) => keyMatch(column, `k.c${index}`, options.asText)).join(' and ');
        const names = keys.map((_, index) => `c${index}`).join(', ');
        const found = await session.query(
          `select ${keyText} as k, ${rowText} as t from ${relation} t
           where ${filter} and exists (select 1 from (values ${values}) as k(${names}) where ${match})`,
        );
        addImages(images, found);
      }
      return images;
    },
    async close() {
      await session.query('rollback');
      await session.close();
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

function addImages(images: Images, rows: readonly TextRow[]): void {
  for (const { k, t } of rows) images.set(k ?? '', { text: t ?? '' });
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
