/** Topic names of a pipeline (DESIGN section 2). */
export const dataTopic = (name: string, schema: string, table: string): string =>
  `${name}.${topicPart(schema)}.${topicPart(table)}`;
export const progressTopic = (name: string): string => `${name}.__progress`;
export const readerTopic = (name: string): string => `${name}.__reader`;
/** What stream workers tell each other of their tables. */
export const workersTopic = (name: string): string => `${name}.__workers`;
export const quarantineTopic = (name: string, schema: string, table: string): string =>
  `${dataTopic(name, schema, table)}.quarantine`;

/** Kafka allows [a-zA-Z0-9._-] in topic names; every other UTF-16 unit becomes `_` (as Debezium does). */
function topicPart(identifier: string): string {
  return identifier.replace(/[^A-Za-z0-9._-]/g, '_');
}
