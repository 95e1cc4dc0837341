/** The servers of a drill, started once for all its runs, and the place of one run on them: a database, a lake, a log. */
import { rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import type { EventLog } from '../../services/log/log.ts';
import { dataTopic } from '../../services/log/topics.ts';
import { startKafka, type KafkaServer } from '../local/kafka.ts';
import { startPostgres, type PostgresServer } from '../local/postgres.ts';
import { startS3, type S3Server } from '../local/s3.ts';
import type { FaultPlan, LakeKind, LogKind, ServerKind } from './fault-plan.ts';

export interface RunPlace {
  readonly url: string;
  /** `log:` and `lake:` of the configuration, as YAML in one line. */
  readonly log: string;
  readonly lake: string;
  readonly env: Readonly<Record<string, string>>;
  /** Rows as text. */
  query(sql: string): Promise<readonly Record<string, string | null>[]>;
  cutSessions(): Promise<void>;
  /** Tables of the source with their rows; leaves of a partitioned table are its own. */
  tables(): Promise<readonly { readonly table: string; readonly rows: number }[]>;
  removeFromLake(prefix: string): Promise<void>;
  /** @throws Error when a read_committed consumer sees one position twice in a partition */
  expectNoEventTwice(): Promise<void>;
  close(): Promise<void>;
}

export interface DrillServers {
  openRun(plan: FaultPlan, name: string): Promise<RunPlace>;
  kill(server: ServerKind, downMs: number): Promise<void>;
  restartPostgres(downMs: number): Promise<void>;
  close(): Promise<void>;
}

export interface DrillServerOptions {
  readonly logs: readonly LogKind[];
  readonly lakes: readonly LakeKind[];
  /** Where a run keeps its files. */
  readonly folderOf: (seed: number) => string;
  readonly cache?: string;
}

const BUCKET = 'drill';
/** The driver's type asks for an overload by format, of which only text is used here. */
const asText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig;

export async function startDrillServers(options: DrillServerOptions): Promise<DrillServers> {
  const cache = options.cache === undefined ? {} : { cache: options.cache };
  let kafka: KafkaServer | null = null;
  let s3: S3Server | null = null;
  const postgres = await startPostgres({
    durable: false,
    settings: { wal_sender_timeout: '2s', max_replication_slots: 20, deadlock_timeout: '200ms' },
    ...cache,
  });
  const stop = async (): Promise<void> => {
    await postgres.stop('immediate').catch(() => undefined);
    await kafka?.stop().catch(() => undefined);
    await s3?.stop().catch(() => undefined);
  };
  try {
    if (options.logs.includes('kafka')) kafka = await startKafka(cache);
    if (options.lakes.includes('s3')) {
      s3 = await startS3(cache);
      await mkdir(join(s3.dataDir, 'buckets', BUCKET));
    }
  } catch (error) {
    await stop();
    throw error;
  }
  const servers = { postgres, kafka, s3 };

  return {
    close: stop,
    async kill(server, downMs) {
      const victim = servers[server];
      if (victim === null) throw new Error(`there is no ${server} in this drill`);
      await victim.kill();
      await sleep(downMs);
      await victim.restart();
    },
    async restartPostgres(downMs) {
      await postgres.restart({ mode: 'fast' });
      await sleep(downMs);
    },
    openRun: (plan, name) => openRun(plan, name, servers, options),
  };
}

async function openRun(
  plan: FaultPlan,
  name: string,
  { postgres, kafka, s3 }: { postgres: PostgresServer; kafka: KafkaServer | null; s3: S3Server | null },
  options: DrillServerOptions,
): Promise<RunPlace> {
  const database = `drill_${plan.seed}`;
  const admin = (sql: string): Promise<unknown> => once(postgres.url, sql);
  await admin(`drop database if exists ${database} with (force)`);
  await admin(`create database ${database}`);
  const url = postgres.urlFor({ database });
  const query = (sql: string): Promise<readonly Record<string, string | null>[]> => once(url, sql);
  const lakeUri = plan.lake === 's3' ? `s3://${BUCKET}/${name}` : join(options.folderOf(plan.seed), 'lake');
  if (plan.lake === 'file') rmSync(lakeUri, { recursive: true, force: true });
  const env: Record<string, string> =
    s3 === null ? {} : { AWS_ACCESS_KEY_ID: s3.accessKeyId, AWS_SECRET_ACCESS_KEY: s3.secretAccessKey };

  const openLog = (): Promise<EventLog> =>
    plan.log === 'kafka' && kafka !== null
      ? openKafkaLog({ name, brokers: kafka.brokers })
      : openEmbeddedLog({ directory: join(options.folderOf(plan.seed), '.sluice/log') });

  const tables = async (): Promise<readonly { table: string; rows: number }[]> => {
    const found = await query(
      `select n.nspname || '.' || c.relname as t from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
    );
    const counted: { table: string; rows: number }[] = [];
    for (const { t } of found) {
      const [row] = await query(`select count(*)::text as n from ${t}`);
      counted.push({ table: t ?? '', rows: Number(row?.['n'] ?? 0) });
    }
    return counted;
  };

  return {
    url,
    env,
    query,
    tables,
    log:
      plan.log === 'kafka' && kafka !== null
        ? `{kind: kafka, brokers: ${JSON.stringify(kafka.brokers)}, partitions: ${plan.partitions}}`
        : `{kind: embedded, partitions: ${plan.partitions}}`,
    lake:
      plan.lake === 's3' && s3 !== null
        ? `{uri: "${lakeUri}", s3: {endpoint: "${s3.endpoint}"}}`
        : `{uri: ${JSON.stringify(lakeUri)}}`,
    async cutSessions() {
      await query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'sluice%'`,
      );
    },
    async removeFromLake(prefix) {
      if (plan.lake === 's3' && s3 !== null) {
        rmSync(join(s3.dataDir, 'buckets', BUCKET, name, prefix), { recursive: true, force: true });
        return;
      }
      rmSync(join(lakeUri, prefix), { recursive: true, force: true });
    },
    async expectNoEventTwice() {
      const log = await openLog();
      try {
        for (const { table } of await tables()) await noEventTwice(log, name, table);
      } finally {
        await log.close();
      }
    },
    async close() {
      await admin(
        `select pg_terminate_backend(active_pid) from pg_replication_slots where database = '${database}' and active_pid is not null`,
      );
      for (let attempt = 0; attempt < 50; attempt += 1) {
        try {
          await admin(
            `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = '${database}'`,
          );
          break;
        } catch {
          await sleep(100);
        }
      }
      await admin(`drop database if exists ${database} with (force)`);
    },
  };
}

/** Every (epoch, LSN, ordinal) of the table's topic stands once in its partition. */
async function noEventTwice(log: EventLog, name: string, table: string): Promise<void> {
  const topic = dataTopic(name, 'public', table.slice(table.indexOf('.') + 1));
  for (const [partition, { earliest, end }] of await log.reader.bounds(topic)) {
    const seen = new Set<string>();
    for await (const batch of log.reader.read(topic, partition, earliest, end)) {
      for (const header of batch.headers) {
        if (header === null) continue;
        const position = header.toString('latin1', 1, 20);
        if (seen.has(position)) {
          throw new Error(`${topic}/${partition}: position ${header.toString('hex', 1, 20)} stands twice in the log`);
        }
        seen.add(position);
      }
    }
  }
}

async function once(url: string, sql: string): Promise<readonly Record<string, string | null>[]> {
  const client = new pg.Client({ connectionString: url, types: asText });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const result = (await client.query(sql)) as
      | pg.QueryResult<Record<string, string | null>>
      | pg.QueryResult<Record<string, string | null>>[];
    return (Array.isArray(result) ? result.at(-1) : result)?.rows ?? [];
  } finally {
    await client.end();
  }
}
