import { Kafka, logLevel } from 'kafkajs';
import { connectKafka } from '../../services/log/kafka-client.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import { getKafka } from '../support/kafka.ts';
import { requires } from '../support/requirements.ts';
import { registerLogSuite, type LogHarness } from './register-log-suite.ts';

async function start(): Promise<LogHarness> {
  const { brokers, prefix } = await getKafka();
  const admin = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const client = await connectKafka({ brokers });
  return {
    open: () => openKafkaLog({ name: prefix, brokers, retryMsMax: 10_000 }),
    async expire(_log, topic, partition, offset) {
      // kafkajs deletes records only of a topic that it has asked about.
      await admin.fetchTopicOffsets(topic);
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] });
    },
    /**
     * A commit is acknowledged before its markers stand in every partition. What is written is asked by a fetch: the
     * offsets that kafkajs's admin calls high are those that a reader of committed records sees.
     */
    async settled(log, topic) {
      const bounds = await log.reader.bounds(topic);
      const leaders = await client.leaders(topic);
      for (const [partition, { end }] of bounds) {
        const from = { topic, partition, offset: end, bytesMax: 1, waitMsMax: 0 };
        const { highWatermark } = await client.fetch(leaders[partition] ?? -1, from);
        if (end !== highWatermark) return false;
      }
      return true;
    },
    async close() {
      await client.close();
      await admin.disconnect();
    },
  };
}

registerLogSuite('kafka', start, await requires('kafka: the log', 'kafka'));
