import { createHash } from 'node:crypto';

/** Topic names of a pipeline (DESIGN section 2). */
export const dataTopic = (name: string, schema: string, table: string): string =>
  `${name}.${topicPart(schema)}.${topicPart(table)}`;
export const progressTopic = (name: string): string => `${name}.__progress`;
export const readerTopic = (name: string): string => `${name}.__reader`;
/** What stream workers tell each other of their tables. */
export const workersTopic = (name: string): string => `${name}.__workers`;
export const quarantineTopic = (name: string, schema: string, table: string): string =>
  `${dataTopic(name, schema, table)}.quarantine`;

/**
 * Kafka allows [a-zA-Z0-9._-] in topic names; every other UTF-16 unit becomes `_` (as Debezium does), and a sum of the name
 * follows: without it tables 订单 and 客户 would have one topic, and each the other's rows.
 */
function topicPart(identifier: string): string {
  const plain = identifier.replace(/[^A-Za-z0-9._-]/g, '_');
  if (plain === identifier) return plain;
  return `${plain}-${createHash('sha256').update(identifier).digest('hex').slice(0, SUM_DIGITS)}`;
}

const SUM_DIGITS = 8;
