/** What a failure of the Kafka client means, as the log's own error. */
import { LogError, type LogErrorCode } from './log.ts';

const CODE_OF_TYPE: Readonly<Record<string, LogErrorCode>> = {
  SASL_AUTHENTICATION_FAILED: 'LOG_AUTHENTICATION',
  ILLEGAL_SASL_STATE: 'LOG_AUTHENTICATION',
  UNSUPPORTED_SASL_MECHANISM: 'LOG_AUTHENTICATION',
  TOPIC_AUTHORIZATION_FAILED: 'LOG_ACCESS_DENIED',
  GROUP_AUTHORIZATION_FAILED: 'LOG_ACCESS_DENIED',
  CLUSTER_AUTHORIZATION_FAILED: 'LOG_ACCESS_DENIED',
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 'LOG_ACCESS_DENIED',
  UNKNOWN_TOPIC_OR_PARTITION: 'LOG_TOPIC_MISSING',
  INVALID_TOPIC_EXCEPTION: 'LOG_TOPIC_REFUSED',
  INVALID_REPLICATION_FACTOR: 'LOG_TOPIC_REFUSED',
  INVALID_PARTITIONS: 'LOG_TOPIC_REFUSED',
  INVALID_CONFIG: 'LOG_TOPIC_REFUSED',
  POLICY_VIOLATION: 'LOG_TOPIC_REFUSED',
  OFFSET_OUT_OF_RANGE: 'LOG_OFFSET_OUT_OF_RANGE',
  MESSAGE_TOO_LARGE: 'LOG_RECORD_TOO_LARGE',
  RECORD_LIST_TOO_LARGE: 'LOG_RECORD_TOO_LARGE',
  INVALID_PRODUCER_EPOCH: 'LOG_FENCED',
  PRODUCER_FENCED: 'LOG_FENCED',
  INVALID_PRODUCER_ID_MAPPING: 'LOG_FENCED',
};

const REMEDY: Readonly<Partial<Record<LogErrorCode, string>>> = {
  LOG_AUTHENTICATION: 'check log.sasl, log.ssl and the certificates',
  LOG_ACCESS_DENIED: 'grant the user the rights that `sluice doctor` lists',
  LOG_TOPIC_REFUSED:
    'correct log.partitions or log.replicationFactor; a name that differs from another topic by "." for "_" only is refused, too',
  LOG_FENCED: 'another writer took over, or a transaction timed out; this one must stop',
  LOG_UNAVAILABLE: 'check log.brokers and that the brokers run',
};

/** Certificates that do not hold: no retry cures them. */
const TLS_CODES = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS|ERR_SSL|EPROTO|certificate|alert/i;

export function kafkaError(cause: unknown, brokers: readonly string[]): LogError {
  const chain = causesOf(cause);
  for (const error of chain) if (error instanceof LogError) return error;
  const code = codeOf(chain);
  const topics = new Set(refusedTopics(cause));
  const text =
    topics.size > 0
      ? `topic ${[...topics].join(', ')}: ${chain.at(-1)?.message ?? ''}`
      : (chain.map((error) => error.message).find((message) => message !== '') ?? String(cause));
  const remedy = REMEDY[code];
  return new LogError(code, `kafka ${brokers.join(', ')}: ${text}${remedy === undefined ? '' : `; ${remedy}`}`, {
    cause,
  });
}

/** Topics that could not be created; the client says no more than that of several together. */
const refusedTopics = (cause: unknown): readonly string[] =>
  errorsOf(cause).flatMap((error) => ('topic' in error && typeof error.topic === 'string' ? [error.topic] : []));

const errorsOf = (error: unknown): readonly Error[] =>
  error instanceof Error && 'errors' in error && Array.isArray(error.errors)
    ? error.errors.filter((each) => each instanceof Error)
    : [];

function causesOf(cause: unknown): Error[] {
  const chain: Error[] = [];
  let next = cause;
  while (next instanceof Error && chain.length < 8) {
    chain.push(next);
    const inner = 'originalError' in next ? next.originalError : (errorsOf(next)[0] ?? next.cause);
    next = inner === chain.at(-1) ? undefined : inner;
  }
  return chain;
}

function codeOf(chain: readonly Error[]): LogErrorCode {
  for (const error of chain) {
    const type: unknown = 'type' in error ? error.type : undefined;
    const code = typeof type === 'string' ? CODE_OF_TYPE[type] : undefined;
    if (code !== undefined) return code;
    if (error.name === 'KafkaJSSASLAuthenticationError') return 'LOG_AUTHENTICATION';
    const system: unknown = 'code' in error ? error.code : undefined;
    if (typeof system === 'string' && TLS_CODES.test(system)) return 'LOG_AUTHENTICATION';
    if (error.name.startsWith('KafkaJSConnection') && /certificate|self.signed|alert/i.test(error.message)) {
      return 'LOG_AUTHENTICATION';
    }
  }
  return 'LOG_UNAVAILABLE';
}

/** The broker's name of the error, such as CONCURRENT_TRANSACTIONS; empty when it is not the broker's. */
export function brokerErrorType(error: unknown): string {
  for (const one of causesOf(error)) {
    if ('type' in one && typeof one.type === 'string') return one.type;
  }
  return '';
}
