/**
 * The one file that knows kafkajs (with kafka-protocol.ts, its raw requests). Its cluster, connections, TLS, SASL and admin are used as they are; produce, fetch and
 * InitProducerId are written here, on its connections, because the library builds an object a record, reads only by
 * consumer group, and cannot raise its own epoch safely (KIP-360).
 */
import { createRequire } from 'node:module';
import { Kafka, logLevel, type Admin, type ISocketFactory, type KafkaConfig, type SASLOptions } from 'kafkajs';
import { brokerErrorType, kafkaError } from './kafka-error.ts';
import { createKafkaSockets, type KafkaSockets } from './kafka-sockets.ts';
import type { ProducerStamp } from './kafka-batch.ts';
import {
  createErrorFromCode,
  fetchRequest,
  initProducerRequest,
  produceRequest,
  METADATA_KEY,
  METADATA_WITH_IDS,
  topicIdsRequest,
  type FetchedRecords,
  type FetchRequest,
  type ProducedBatch,
  type ProduceRequest,
} from './kafka-protocol.ts';

export interface KafkaTls {
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly passphrase?: string;
  readonly rejectUnauthorized?: boolean;
  readonly servername?: string;
}

export type KafkaCredentials =
  | {
      readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
      readonly username: string;
      readonly password: string;
    }
  | { readonly mechanism: 'oauthbearer'; readonly token: string };

export interface KafkaConnectionOptions {
  readonly brokers: readonly string[];
  readonly clientId?: string;
  readonly tls?: KafkaTls | null;
  /** Asked at each new login, and again after a login that failed, so that a rotated credential is picked up. */
  readonly credentials?: (() => Promise<KafkaCredentials>) | null;
  readonly connectTimeoutMs?: number;
  readonly requestTimeoutMs?: number;
}

interface ConnectionPool {
  send(request: object): Promise<unknown>;
}

interface InternalBroker {
  /** By API key, once connected. */
  readonly versions: Readonly<Record<number, { readonly maxVersion: number } | undefined>>;
  readonly connectionPool: ConnectionPool;
  disconnect(): Promise<void>;
  connect(): Promise<void>;
  addPartitionsToTxn(request: object): Promise<unknown>;
  endTxn(request: object): Promise<unknown>;
  initProducerId(request: object): Promise<{ producerId: unknown; producerEpoch: number }>;
  offsetCommit(request: object): Promise<unknown>;
  joinGroup(request: object): Promise<{
    readonly generationId: number;
    readonly leaderId: string;
    readonly memberId: string;
    readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
  }>;
  syncGroup(request: object): Promise<{ readonly memberAssignment: Buffer }>;
  heartbeat(request: object): Promise<unknown>;
  leaveGroup(request: object): Promise<unknown>;
  listOffsets(request: object): Promise<{
    readonly responses: readonly {
      readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
    }[];
  }>;
}

interface InternalCluster {
  /** Topics whose metadata is asked for, all together. */
  readonly targetTopics: Set<string>;
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
  refreshMetadata(): Promise<void>;
  findTopicPartitionMetadata(topic: string): readonly { readonly partitionId: number; readonly leader: number }[];
  findControllerBroker(): Promise<InternalBroker>;
  findBroker(options: { readonly nodeId: number }): Promise<InternalBroker>;
  findGroupCoordinator(options: {
    readonly groupId: string;
    readonly coordinatorType: number;
  }): Promise<InternalBroker>;
}

const load = createRequire(import.meta.url);
const Cluster = load('kafkajs/src/cluster') as new (options: object) => InternalCluster;
const TRANSACTION_COORDINATOR = 1;
const GROUP_COORDINATOR = 0;
const READ_COMMITTED = 1;
const NO_SUCH_TOPIC = 'UNKNOWN_TOPIC_OR_PARTITION';

/** A connection to the cluster, with metadata. Errors are LogErrors. */
export interface KafkaClient {
  /** Leader of each partition, by partition number. @throws LogError TOPIC_MISSING */
  leaders(topic: string): Promise<readonly number[]>;
  refresh(): Promise<void>;
  /** Id of each of these topics that exists; null = the brokers are too old to tell. */
  topicIds(topics: readonly string[]): Promise<ReadonlyMap<string, string> | null>;
  produce(leader: number, request: ProduceRequest): Promise<readonly ProducedBatch[]>;
  fetch(leader: number, request: FetchRequest): Promise<FetchedRecords>;
  /** Offsets by time: -2 = earliest, -1 = last stable; -1 as an answer: none. */
  offsets(
    topic: string,
    leader: number,
    partitions: readonly number[],
    timestampMs: number,
  ): Promise<ReadonlyMap<number, bigint>>;
  initProducer(transactionalId: string, timeoutMs: number, current: ProducerStamp | null): Promise<ProducerStamp>;
  addPartitions(
    transactionalId: string,
    stamp: ProducerStamp,
    topics: ReadonlyMap<string, readonly number[]>,
  ): Promise<void>;
  endTransaction(transactionalId: string, stamp: ProducerStamp, commit: boolean): Promise<void>;
  commitGroup(group: string, topic: string, offsets: ReadonlyMap<number, bigint>): Promise<void>;
  /** The four requests of Kafka's group membership; the join waits for all members. */
  joinGroup(request: GroupJoin): Promise<JoinedGroup>;
  syncGroup(member: GroupMemberId, parts: ReadonlyMap<string, Buffer>): Promise<Buffer>;
  heartbeat(member: GroupMemberId): Promise<void>;
  leaveGroup(group: string, memberId: string): Promise<void>;
  close(): Promise<void>;
}

export interface GroupJoin {
  readonly group: string;
  /** Empty at the first join. */
  readonly memberId: string;
  readonly sessionMs: number;
  readonly rebalanceMs: number;
  readonly protocolType: string;
  readonly protocol: string;
  readonly metadata: Buffer;
}

export interface GroupMemberId {
  readonly group: string;
  readonly memberId: string;
  readonly generation: number;
}

export interface JoinedGroup extends GroupMemberId {
  readonly isLeader: boolean;
  /** All members, for the leader only. */
  readonly members: ReadonlyMap<string, Buffer>;
}

function baseConfig(options: KafkaConnectionOptions, sasl: SASLOptions | undefined): KafkaConfig {
  const tls = options.tls;
  return {
    brokers: [...options.brokers],
    clientId: options.clientId ?? 'sluice',
    connectionTimeout: options.connectTimeoutMs ?? 5000,
    authenticationTimeout: 10_000,
    requestTimeout: options.requestTimeoutMs ?? 30_000,
    enforceRequestTimeout: true,
    // Retries are made where it is known what may be repeated; the library's own would hide how long a broker is gone.
    retry: { initialRetryTime: 50, retries: 3, maxRetryTime: 1000 },
    logLevel: logLevel.NOTHING,
    logCreator: () => () => undefined,
    ...(tls == null ? {} : { ssl: tls as NonNullable<KafkaConfig['ssl']> }),
    ...(sasl === undefined ? {} : { sasl }),
  };
}

async function saslOptions(options: KafkaConnectionOptions): Promise<SASLOptions | undefined> {
  const credentials = await options.credentials?.();
  if (credentials === undefined) return undefined;
  if (credentials.mechanism !== 'oauthbearer') return { ...credentials };
  return {
    mechanism: 'oauthbearer',
    oauthBearerProvider: async () => {
      const fresh = await options.credentials?.();
      return { value: fresh?.mechanism === 'oauthbearer' ? fresh.token : credentials.token };
    },
  };
}

/** The library's type names Node's `Socket`, and hands over `ssl` as it was given. */
const socketsOf = (sockets: KafkaSockets): ISocketFactory => sockets.factory as unknown as ISocketFactory;

/** Runs `action` with a connected admin client, which is closed afterwards. */
export async function withAdmin<T>(options: KafkaConnectionOptions, action: (admin: Admin) => Promise<T>): Promise<T> {
  return withLogin(options, async (sasl) => {
    const sockets = createKafkaSockets();
    const admin = new Kafka({ ...baseConfig(options, sasl), socketFactory: socketsOf(sockets) }).admin();
    try {
      await admin.connect();
      return await action(admin);
    } finally {
      await sockets.close(() => admin.disconnect());
    }
  });
}

/** Logs in; when the login fails, with the credential as it is by then once more. */
async function withLogin<T>(
  options: KafkaConnectionOptions,
  action: (sasl: SASLOptions | undefined) => Promise<T>,
): Promise<T> {
  const sasl = await saslOptions(options);
  try {
    return await action(sasl);
  } catch (cause) {
    const error = kafkaError(cause, options.brokers);
    if (error.code !== 'LOG_AUTHENTICATION' || sasl === undefined) throw error;
    const again = await saslOptions(options);
    if (JSON.stringify(again) === JSON.stringify(sasl)) throw error;
    try {
      return await action(again);
    } catch (second) {
      throw kafkaError(second, options.brokers);
    }
  }
}

export async function connectKafka(options: KafkaConnectionOptions): Promise<KafkaClient> {
  const connect = (): Promise<{ readonly cluster: InternalCluster; readonly sockets: KafkaSockets }> =>
    withLogin(options, async (sasl) => {
      const sockets = createKafkaSockets();
      const config = baseConfig(options, sasl);
      const cluster = new Cluster({
        ...config,
        logger: new Kafka(config).logger(),
        socketFactory: sockets.factory,
        allowAutoTopicCreation: false,
        metadataMaxAge: 300_000,
        isolationLevel: READ_COMMITTED,
      });
      try {
        await cluster.connect();
      } catch (error) {
        await sockets.close(() => cluster.disconnect());
        throw error;
      }
      return { cluster, sockets };
    });
  let current = await connect();
  /** A login that fails later, on a new connection: the credential was rotated; begin with what is valid now. */
  const guarded = async <T>(action: () => Promise<T>): Promise<T> => {
    try {
      return await action();
    } catch (cause) {
      const error = kafkaError(cause, options.brokers);
      if (error.code !== 'LOG_AUTHENTICATION' || options.credentials == null) throw error;
      const old = current;
      current = await connect();
      await old.sockets.close(() => old.cluster.disconnect());
      try {
        return await action();
      } catch (second) {
        throw kafkaError(second, options.brokers);
      }
    }
  };
  return clientOn(
    () => current.cluster,
    guarded,
    () => current.sockets.close(() => current.cluster.disconnect()),
  );
}

type Guard = <T>(action: () => Promise<T>) => Promise<T>;

function clientOn(cluster: () => InternalCluster, guarded: Guard, close: () => Promise<void>): KafkaClient {
  const coordinator = (id: string): Promise<InternalBroker> =>
    cluster().findGroupCoordinator({ groupId: id, coordinatorType: TRANSACTION_COORDINATOR });
  const groupCoordinator = async (group: string): Promise<InternalBroker> => {
    const broker = await cluster().findGroupCoordinator({ groupId: group, coordinatorType: GROUP_COORDINATOR });
    await broker.connect();
    return broker;
  };
  /** One topic that is gone fails the question for all: what was asked for is forgotten then, and named again where it is wanted. */
  const withoutGone = async (ask: () => Promise<void>): Promise<void> => {
    try {
      await ask();
    } catch (error) {
      if (brokerErrorType(error) !== NO_SUCH_TOPIC) throw error;
      cluster().targetTopics.clear();
      await ask();
    }
  };
  const refresh = (): Promise<void> => withoutGone(() => cluster().refreshMetadata());
  const brokerOf = async (nodeId: number): Promise<InternalBroker> => {
    try {
      return await cluster().findBroker({ nodeId });
    } catch (error) {
      // Where it cannot be reached the library asks for metadata, and tells what that failed with.
      if (brokerErrorType(error) !== NO_SUCH_TOPIC) throw error;
      await refresh();
      return cluster().findBroker({ nodeId });
    }
  };
  const send = async (leader: number, request: object): Promise<unknown> => {
    const broker = await brokerOf(leader);
    try {
      return await broker.connectionPool.send(request);
    } catch (error) {
      // As the library's own sends do: a pool with a closed connection is opened anew.
      if (error instanceof Error && error.name === 'KafkaJSConnectionClosedError') await broker.disconnect();
      throw error;
    }
  };
  return {
    leaders: (topic) =>
      guarded(async () => {
        await withoutGone(() => cluster().addMultipleTargetTopics([topic]));
        // A question that was under way is shared, and did not name the topic.
        if (cluster().findTopicPartitionMetadata(topic).length === 0) await refresh();
        const leaders: number[] = [];
        for (const partition of cluster().findTopicPartitionMetadata(topic))
          leaders[partition.partitionId] = partition.leader;
        if (leaders.length === 0) throw createErrorFromCode(3);
        return leaders;
      }),
    refresh: () => guarded(refresh),
    topicIds: (topics) =>
      guarded(async () => {
        // A client that only asks for ids knows of no topic, and so of no broker yet.
        await refresh();
        const broker = await cluster().findControllerBroker();
        await broker.connect();
        if ((broker.versions[METADATA_KEY]?.maxVersion ?? 0) < METADATA_WITH_IDS) return null;
        return (await broker.connectionPool.send(topicIdsRequest(topics))) as ReadonlyMap<string, string>;
      }),
    produce: (leader, request) =>
      guarded(async () => (await send(leader, produceRequest(request))) as readonly ProducedBatch[]),
    fetch: (leader, request) => guarded(async () => (await send(leader, fetchRequest(request))) as FetchedRecords),
    offsets: (topic, leader, partitions, timestampMs) =>
      guarded(async () => {
        const broker = await brokerOf(leader);
        const wanted = partitions.map((partition) => ({ partition, timestamp: String(timestampMs) }));
        const { responses } = await broker.listOffsets({
          isolationLevel: READ_COMMITTED,
          topics: [{ topic, partitions: wanted }],
        });
        return new Map(
          responses.flatMap((answer) => answer.partitions.map((one) => [one.partition, BigInt(one.offset)] as const)),
        );
      }),
    initProducer: (transactionalId, timeoutMs, current) =>
      guarded(async () => {
        const broker = await coordinator(transactionalId);
        await broker.connect();
        return (await broker.connectionPool.send(
          initProducerRequest(transactionalId, timeoutMs, current),
        )) as ProducerStamp;
      }),
    addPartitions: (transactionalId, stamp, topics) =>
      guarded(async () => {
        const broker = await coordinator(transactionalId);
        await broker.addPartitionsToTxn({
          transactionalId,
          producerId: String(stamp.producerId),
          producerEpoch: stamp.producerEpoch,
          topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })),
        });
      }),
    endTransaction: (transactionalId, stamp, commit) =>
      guarded(async () => {
        const broker = await coordinator(transactionalId);
        await broker.endTxn({
          transactionalId,
          producerId: String(stamp.producerId),
          producerEpoch: stamp.producerEpoch,
          transactionResult: commit,
        });
      }),
    commitGroup: (group, topic, offsets) =>
      guarded(async () => {
        const broker = await cluster().findGroupCoordinator({ groupId: group, coordinatorType: GROUP_COORDINATOR });
        const partitions = [...offsets].map(([partition, offset]) => ({ partition, offset: String(offset) }));
        // No member, no generation: the form in which a group without consumers is written.
        await broker.offsetCommit({
          groupId: group,
          groupGenerationId: -1,
          memberId: '',
          topics: [{ topic, partitions }],
        });
      }),
    joinGroup: ({ group, memberId, sessionMs, rebalanceMs, protocolType, protocol, metadata }) =>
      guarded(async () => {
        const broker = await groupCoordinator(group);
        const joined = await broker.joinGroup({
          groupId: group,
          memberId,
          sessionTimeout: sessionMs,
          rebalanceTimeout: rebalanceMs,
          protocolType,
          groupProtocols: [{ name: protocol, metadata }],
        });
        return {
          group,
          memberId: joined.memberId,
          generation: joined.generationId,
          isLeader: joined.leaderId === joined.memberId,
          members: new Map(joined.members.map((member) => [member.memberId, member.memberMetadata])),
        };
      }),
    syncGroup: ({ group, memberId, generation }, parts) =>
      guarded(async () => {
        const broker = await groupCoordinator(group);
        const { memberAssignment } = await broker.syncGroup({
          groupId: group,
          generationId: generation,
          memberId,
          groupAssignment: [...parts].map(([member, bytes]) => ({ memberId: member, memberAssignment: bytes })),
        });
        return memberAssignment;
      }),
    heartbeat: ({ group, memberId, generation }) =>
      guarded(async () => {
        const broker = await groupCoordinator(group);
        await broker.heartbeat({ groupId: group, groupGenerationId: generation, memberId });
      }),
    leaveGroup: (group, memberId) =>
      guarded(async () => {
        const broker = await groupCoordinator(group);
        await broker.leaveGroup({ groupId: group, memberId });
      }),
    close,
  };
}
