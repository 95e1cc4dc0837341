/**
 * A mixed workload on the shop: inserts, updates (most leave the TOASTed column alone), deletes, key changes, transactions
 * over several tables, rollbacks, and now and then a row that breaks its contract (a payment of less than nothing, an
 * address without @). Everything follows from the seed.
 */
import { seededRandom, type Random } from './random.ts';

/** What the workload needs of a database session. */
export interface WorkloadSession {
  query(sql: string, values?: readonly unknown[]): Promise<unknown>;
}

export interface WorkloadCounts {
  transactions: number;
  rowChanges: number;
  rolledBack: number;
  violations: number;
}

/** Loads `rows` orders with their customers, items and payments, set-wise in SQL. */
export async function loadShop(session: WorkloadSession, rows: number): Promise<void> {
  const customers = Math.max(1, Math.ceil(rows / 4));
  await session.query(
    `insert into customers
     select i, gen_random_uuid(), 'user' || i || '@example.org', 'Customer ' || i,
            (array['bronze','silver','gold'])[1 + i % 3]::customer_tier,
            case when i % 5 = 0 then null else array['tag' || i % 7, null, 'a "quoted", one', ''] end,
            jsonb_build_object('visits', i, 'big', 12345678901234567890::numeric, 'nested', jsonb_build_array(i, null, 'x')),
            decode(md5(i::text), 'hex'),
            case when i % 10 = 0 then repeat(md5(i::text), 150) else 'short' end,
            timestamptz '2024-01-01 00:00:00.123456+00' + i * interval '37 seconds 11 microseconds'
     from generate_series(1, $1::int) i`,
    [customers],
  );
  await session.query(
    `insert into orders
     select 1 + i % 3, 9007199254740000 + i, 1 + i % $2::int,
            (array['new','paid','shipped','cancelled'])[1 + i % 4]::order_status,
            (i % 100000) / 7.0, case when i % 11 = 0 then 'NaN' else i * 0.1 end,
            case when i % 20 = 0 then repeat(md5(i::text), 120) else null end,
            date '2024-01-01' + i % 400, timestamptz '2024-02-29 23:59:59.999999+00' + i * interval '1 second',
            case when i % 4 in (1, 2) then timestamptz '2024-03-01 12:00:00+00' + i * interval '1 second' end
     from generate_series(1, $1::int) i`,
    [rows, customers],
  );
  await session.query(
    `insert into order_items
     select 1 + i % 3, 9007199254740000 + i, l, 'sku-' || (i + l) % 500, 1 + i % 9, ((i + l) % 9999) / 3.0, i % 2 = 0
     from generate_series(1, $1::int) i, generate_series(1, 2) l`,
    [rows],
  );
  await session.query(
    `insert into payments
     select gen_random_uuid(), 1 + i % 3, 9007199254740000 + i, (i % 100000) / 7.0, (array['card','cash','wire'])[1 + i % 3],
            case when i % 3 = 0 then decode(repeat(md5(i::text), 2), 'hex') end,
            timestamp '2024-03-10 02:30:00.000001' + i * interval '1 minute'
     from generate_series(1, $1::int) i where i % 2 = 0`,
    [rows],
  );
}

export interface WorkloadOptions {
  readonly seed: number;
  /** Stops after this many transactions, or when the signal aborts. */
  readonly transactions: number;
  readonly signal: AbortSignal;
  /** Orders that loadShop made. */
  readonly rows: number;
  /** One in so many transactions breaks a contract; 0 = none. */
  readonly violationEvery: number;
  /** Called after each transaction; may wait to hold a rate. */
  readonly pace?: (done: number) => Promise<void>;
  /** Distinguishes the new keys of parallel sessions. */
  readonly session?: number;
}

export async function runWorkload(session: WorkloadSession, options: WorkloadOptions): Promise<WorkloadCounts> {
  const random = seededRandom(options.seed);
  const counts: WorkloadCounts = { transactions: 0, rowChanges: 0, rolledBack: 0, violations: 0 };
  const base = 9_100_000_000_000_000n + BigInt(options.session ?? 0) * 1_000_000_000n;
  for (let i = 0; i < options.transactions && !options.signal.aborted; i += 1) {
    const violates = options.violationEvery > 0 && i % options.violationEvery === options.violationEvery - 1;
    await session.query('begin');
    let changes = 0;
    try {
      if (violates) {
        changes += await violate(session, random, options);
        counts.violations += 1;
      }
      changes += await mixedTransaction(session, random, options, base + BigInt(i));
    } catch (error) {
      await session.query('rollback');
      throw error;
    }
    const rollback = !violates && random.below(20) === 0;
    await session.query(rollback ? 'rollback' : 'commit');
    counts.transactions += 1;
    if (rollback) counts.rolledBack += 1;
    else counts.rowChanges += changes;
    await options.pace?.(counts.transactions);
  }
  return counts;
}

/** One payment below zero, which public.payments' contract forbids. */
async function violate(session: WorkloadSession, random: Random, options: WorkloadOptions): Promise<number> {
  await session.query(`insert into payments values ($1, $2, $3, $4, 'card', null, timestamp '2024-06-01 10:00:00')`, [
    random.uuid(),
    1 + random.below(3),
    orderId(random, options),
    `-${1 + random.below(500)}.50`,
  ]);
  return 1;
}

async function mixedTransaction(
  session: WorkloadSession,
  random: Random,
  options: WorkloadOptions,
  fresh: bigint,
): Promise<number> {
  const tenant = 1 + random.below(3);
  switch (random.below(8)) {
    case 0:
    case 1: {
      const total = `${random.below(90000)}.${random.below(90) + 10}`;
      await session.query(
        `insert into orders values ($1, $2, $3, 'new', $4, $5, $6, current_date, clock_timestamp(), null)`,
        [
          tenant,
          fresh.toString(),
          1 + random.below(100),
          total,
          random.next() * 1000,
          random.below(3) === 0 ? random.hex(2000) : null,
        ],
      );
      for (let line = 1; line <= 3; line += 1) {
        await session.query(`insert into order_items values ($1, $2, $3, $4, $5, $6, $7)`, [
          tenant,
          fresh.toString(),
          line,
          `sku-${random.below(500)}`,
          1 + random.below(9),
          `${random.below(900)}.99`,
          random.below(2) === 0,
        ]);
      }
      await session.query(
        `insert into payments values ($1, $2, $3, $4, 'card', decode($5, 'hex'), clock_timestamp()::timestamp)`,
        [random.uuid(), tenant, fresh.toString(), total, random.hex(24)],
      );
      return 5;
    }
    case 2:
      await session.query(
        `update orders set status = 'shipped', paid_at = clock_timestamp() where order_id between $1::bigint and $1::bigint + 4`,
        [orderId(random, options)],
      );
      return 5;
    case 3:
      await session.query(`update customers set tags = array_append(tags, $2), tier = 'gold' where id = $1`, [
        1 + random.below(Math.max(1, options.rows / 4)),
        `t${random.below(1000)},"${random.hex(2)}"`,
      ]);
      return 1;
    case 4:
      await session.query(`delete from order_items where order_id = $1::bigint and line_no = 2`, [
        orderId(random, options),
      ]);
      await session.query(`delete from payments where order_id = $1::bigint`, [orderId(random, options)]);
      return 2;
    case 5:
      // A key change of a row whose note may lie out of line: a delete and an insert in one place of the order.
      await session.query(`update orders set order_id = $2::bigint where order_id = $1::bigint`, [
        orderId(random, options),
        (fresh + 500_000_000n).toString(),
      ]);
      return 2;
    case 6:
      await session.query(
        `insert into customers values ($1, $2, $3, $4, 'bronze', '{}', '{"n": 9007199254740993}', decode($5, 'hex'), $6, clock_timestamp())
         on conflict (id) do update set name = excluded.name`,
        [
          random.below(1_000_000) + 1_000_000,
          random.uuid(),
          `c${random.below(1e9)}@example.org`,
          `Ünïcode ${random.hex(3)} 😀`,
          random.hex(16),
          random.hex(1500),
        ],
      );
      return 1;
    default: {
      const id = 1 + random.below(Math.max(1, options.rows / 4));
      await session.query(`update customers set biography = $2, profile = profile || $3::jsonb where id = $1`, [
        id,
        random.hex(1200),
        JSON.stringify({ seen: random.below(1_000_000) }),
      ]);
      await session.query(`savepoint s`);
      await session.query(`update customers set name = 'never' where id = $1`, [id]);
      await session.query(`rollback to savepoint s`);
      return 1;
    }
  }
}

function orderId(random: Random, options: WorkloadOptions): string {
  return (9007199254740000n + BigInt(1 + random.below(Math.max(1, options.rows)))).toString();
}
