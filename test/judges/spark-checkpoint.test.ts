/** Our checkpoints have Spark's own form: an unmodified Spark query goes on from one, at the very offsets. */
import { join } from 'node:path';
import { Kafka, logLevel } from 'kafkajs';
import { expect, it } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import type { LogOffset } from '../../services/log/position.ts';
import { openCheckpoint, type BatchPlan } from '../../services/stream/checkpoint.ts';
import { getKafka } from '../support/kafka.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { continueWithSpark } from './judge.ts';

const suite = await requires('Spark on our checkpoints', 'kafka', 'python', 'spark');

suite('Spark on our checkpoints', () => {
  it('begins with the next offsets of the newest batch that was finished', async () => {
    const { brokers, prefix } = await getKafka();
    const topic = `${prefix}.public.t`;
    const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING });
    const admin = kafka.admin();
    await admin.connect();
    await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });
    await admin.disconnect();
    const producer = kafka.producer();
    await producer.connect();
    const messages = [0, 0, 0, 0, 0, 1, 1, 1].map((partition, i) => ({ partition, key: 'k', value: `v${i}` }));
    await producer.send({ topic, messages });
    await producer.disconnect();

    const folder = temporaryFolder('spark-checkpoint');
    const checkpoint = openCheckpoint(
      createFileStore(folder),
      'public.t',
      () => '7a7a7a7a-0000-4000-8000-000000000000',
    );
    await checkpoint.id();
    const plan = (batchId: bigint, from: readonly bigint[], to: readonly bigint[]): BatchPlan => ({
      batchId,
      timestampMs: 1_700_000_000_000,
      topic,
      from: new Map(from.map((offset, partition) => [partition, offset as LogOffset])),
      to: new Map(to.map((offset, partition) => [partition, offset as LogOffset])),
      conf: { 'sluice.mark': '7', 'sluice.contract': 'ab' },
    });
    for (const [batchId, from, to] of [
      [0n, [0n, 0n], [1n, 1n]],
      [1n, [1n, 1n], [2n, 1n]],
      [2n, [2n, 1n], [4n, 2n]],
    ] as const) {
      await checkpoint.writePlan(plan(batchId, from, to));
      await checkpoint.writeCommit(batchId);
    }
    // A batch that was begun Spark 4.1.1 runs with its own offsets too, and then trips over its report of it, whoever wrote it down.

    const source = { 'kafka.bootstrap.servers': brokers.join(','), subscribe: topic, startingOffsets: 'earliest' };
    expect(await continueWithSpark(join(folder, 'public.t'), source)).toEqual([
      [3, 0, 4, 'v4'],
      [3, 1, 2, 'v7'],
    ]);
  });
});
