/**
 * Apache Kafka on this machine without Docker: one node in KRaft mode (broker and controller in one), from Maven Central,
 * for tests and benchmarks. Needs Java 17 and Maven.
 *
 * Listeners: PLAINTEXT always (it is the inter-broker listener too), SSL and SASL_SSL when asked for.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { userCacheFolder } from './cache-folder.ts';
import { freePort } from './free-port.ts';
import { kafkaProperties } from './kafka-properties.ts';
import type { KafkaPorts, KafkaSecurity } from './kafka-properties.ts';
import { LocalServerError } from './local-server-error.ts';
import { fetchJars } from './maven.ts';
import { restartable } from './restartable-server.ts';
import { startServerProcess } from './server-process.ts';
import type { ServerProcess } from './server-process.ts';
import { findTool, runTool } from './toolchain.ts';

export const KAFKA_VERSION = '4.1.1';
const LOG4J_BINDING_VERSION = '2.24.3';
const START_TIMEOUT_MS = 240_000;
const STOP_TIMEOUT_MS = 120_000;
const STARTED_LINE = 'Kafka Server started';

export interface KafkaOptions {
  /** Kept after stop. Default: a temporary folder, removed on stop. */
  readonly dataDir?: string;
  /** server.properties over the defaults. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
  readonly security?: KafkaSecurity;
  /** Listen here instead of on free ports. */
  readonly ports?: KafkaPorts;
  /** Java heap, default 512 MB. */
  readonly heapMb?: number;
  readonly cache?: string;
}

export interface KafkaServer {
  /** PLAINTEXT bootstrap servers. */
  readonly brokers: readonly string[];
  /** TLS without SASL, and TLS with SASL; null unless asked for by `security`. */
  readonly sslBrokers: readonly string[] | null;
  readonly saslBrokers: readonly string[] | null;
  readonly dataDir: string;
  readonly logFile: string;
  readonly running: boolean;
  /** Controlled shutdown; a temporary server is killed and its folder removed. */
  stop(): Promise<void>;
  kill(): Promise<void>;
  /** Controlled shutdown if it runs, then a start on the same ports. */
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
}

/** Folder with Kafka's jars, fetched with Maven on first use. @throws SERVER_UNAVAILABLE */
export async function fetchKafka(cache: string = userCacheFolder()): Promise<string> {
  return fetchJars(resolve(cache), `kafka-${KAFKA_VERSION}`, [
    `org.apache.kafka:kafka_2.13:${KAFKA_VERSION}`,
    // Kafka's own artifact leaves the choice of a logging binding to the user; without one it would fail in silence.
    `org.apache.logging.log4j:log4j-slf4j-impl:${LOG4J_BINDING_VERSION}`,
  ]);
}

/** @throws LocalServerError */
export async function startKafka(options: KafkaOptions = {}): Promise<KafkaServer> {
  const java = findTool('java');
  if (java === null) throw new LocalServerError('SERVER_UNAVAILABLE', 'Kafka needs Java 17 (`java` is not on PATH)');
  const libs = join(await fetchKafka(options.cache), '*');
  const temporary = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'sluice-kafka-')) : null;
  const folder = temporary ?? resolve(options.dataDir ?? '');
  const logFile = join(folder, 'kafka.log');
  const ports = options.ports ?? (await kafkaPorts(options.security));
  const start = async (): Promise<ServerProcess> => {
    const before = existsSync(logFile) ? statSync(logFile).size : 0;
    const heap = `-Xmx${options.heapMb ?? 512}m`;
    const server = startServerProcess({
      name: 'Kafka',
      command: java,
      args: [heap, '-XX:+UseSerialGC', `-Dlog4j2.configurationFile=${join(folder, 'log4j2.properties')}`].concat([
        '-cp',
        libs,
        'kafka.Kafka',
        join(folder, 'server.properties'),
      ]),
      env: { ...process.env, LC_ALL: 'C' },
      cwd: folder,
      logFile,
      ...(temporary === null ? {} : { removeOnExit: temporary }),
    });
    await untilStarted(server, logFile, before);
    return server;
  };
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'log4j2.properties'), LOG4J);
    await writeFile(
      join(folder, 'server.properties'),
      kafkaProperties({ ports, dataDir: join(folder, 'data'), ...pick(options) }),
    );
    await format(java, libs, folder, options.security);
    const server = await restartable(start, STOP_TIMEOUT_MS);
    const address = (port: number | null): string[] | null => (port === null ? null : [`127.0.0.1:${port}`]);
    return {
      brokers: [`127.0.0.1:${ports.plaintext}`],
      sslBrokers: address(ports.ssl),
      saslBrokers: address(ports.sasl),
      dataDir: folder,
      logFile,
      get running() {
        return server.running;
      },
      async stop() {
        if (temporary === null) return server.stop();
        await server.kill();
        await rm(temporary, { recursive: true, force: true, maxRetries: 5 });
      },
      kill: server.kill,
      restart: server.restart,
      pause: server.pause,
      resume: server.resume,
    };
  } catch (error) {
    if (temporary !== null) await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

const pick = ({
  settings,
  security,
}: KafkaOptions): { settings: KafkaOptions['settings']; security: KafkaOptions['security'] } => ({
  settings,
  security,
});

async function kafkaPorts(security: KafkaSecurity | undefined): Promise<KafkaPorts> {
  return {
    plaintext: await freePort(),
    controller: await freePort(),
    ssl: security === undefined ? null : await freePort(),
    sasl: security?.sasl === undefined ? null : await freePort(),
  };
}

/** Writes the cluster's identity and the SCRAM users into the data folder, unless it has been done. */
async function format(java: string, libs: string, folder: string, security: KafkaSecurity | undefined): Promise<void> {
  if (existsSync(join(folder, 'data', 'meta.properties'))) return;
  const users = Object.entries(security?.sasl?.users ?? {}).flatMap(([name, password]) =>
    (['SCRAM-SHA-256', 'SCRAM-SHA-512'] as const).flatMap((mechanism) => [
      '--add-scram',
      `${mechanism}=[name=${name},password=${password}]`,
    ]),
  );
  const tool = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', libs, 'kafka.tools.StorageTool'];
  // The first bit stays clear, as in the ids that Kafka draws: the tool takes an id that begins with `-` for an option.
  const identity = randomBytes(16);
  identity.writeUInt8(identity.readUInt8(0) & 0x7f, 0);
  const clusterId = identity.toString('base64url');
  const args = ['format', '-t', clusterId, '-c', join(folder, 'server.properties'), ...users];
  await runTool(java, [...tool, ...args], { cwd: folder, what: 'formatting Kafka storage' });
}

async function untilStarted(server: ServerProcess, logFile: string, from: number): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!readFrom(logFile, from).includes(STARTED_LINE)) {
    if (server.running && Date.now() < deadline) {
      await sleep(50);
      continue;
    }
    await server.kill();
    throw new LocalServerError('SERVER_START_FAILED', `Kafka did not start:\n${server.logTail()}`);
  }
}

function readFrom(file: string, offset: number): string {
  const length = statSync(file).size - offset;
  if (length <= 0) return '';
  const bytes = Buffer.alloc(length);
  const handle = openSync(file, 'r');
  try {
    readSync(handle, bytes, 0, length, offset);
  } finally {
    closeSync(handle);
  }
  return bytes.toString('latin1');
}

const LOG4J = `rootLogger.level = WARN
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = INFO
`;
