import { Kafka, logLevel } from 'kafkajs';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import { getKafka } from '../support/kafka.ts';
import { requires } from '../support/requirements.ts';
import { registerLogSuite, type LogHarness } from './register-log-suite.ts';

async function start(): Promise<LogHarness> {
  const { brokers, prefix } = await getKafka();
  const admin = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  return {
    open: () => openKafkaLog({ name: prefix, brokers, retryMsMax: 10_000 }),
    async expire(_log, topic, partition, offset) {
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] });
    },
    /** A commit is acknowledged before its markers stand in every partition. */
    async settled(log, topic) {
      const bounds = await log.reader.bounds(topic);
      const written = await admin.fetchTopicOffsets(topic);
      return written.every(({ partition, high }) => bounds.get(partition)?.end === BigInt(high));
    },
    close: () => admin.disconnect(),
  };
}

registerLogSuite('kafka', start, await requires('kafka: the log', 'kafka'));
