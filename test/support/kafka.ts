/** The shared Kafka, with a topic prefix of the test's own. */
import { randomBytes } from 'node:crypto';
import { sharedServer } from './shared-server.ts';

export interface TestKafka {
  readonly brokers: readonly string[];
  /** Unique: begin every topic name, group and transactional id with it. Usable as a pipeline's name. */
  readonly prefix: string;
}

export async function getKafka(): Promise<TestKafka> {
  const { brokers } = await sharedServer('kafka');
  return { brokers, prefix: `t${randomBytes(5).toString('hex')}` };
}
