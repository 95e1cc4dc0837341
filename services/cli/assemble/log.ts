/** The configured event log: the embedded one, or Kafka with credentials that are read again at each login. */
import { readFileSync } from 'node:fs';
import { openEmbeddedLog } from '../../log/embedded-log.ts';
import type { KafkaCredentials, KafkaTls } from '../../log/kafka-client.ts';
import type { EventLog } from '../../log/log.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';

export async function openLog(config: Config, reload: () => Config): Promise<EventLog> {
  if (config.log.kind === 'embedded') return openEmbeddedLog({ directory: config.log.path });
  // Loaded where it is configured: it takes a tenth of a second of every start.
  const { openKafkaLog } = await import('../../log/kafka-log.ts');
  return openKafkaLog({
    name: config.name,
    brokers: config.log.brokers,
    clientId: `sluice-${config.name}`,
    replicationFactor: config.log.replicationFactor,
    tls: kafkaTls(config),
    credentials: config.log.sasl.mechanism === null ? null : () => Promise.resolve(kafkaCredentials(reload())),
  });
}

function kafkaTls({ log: { ssl } }: Config): KafkaTls | null {
  if (!ssl.enabled && ssl.ca === null && ssl.cert === null) return null;
  return {
    rejectUnauthorized: ssl.rejectUnauthorized,
    ...(ssl.ca === null ? {} : { ca: readFileSync(ssl.ca) }),
    ...(ssl.cert === null ? {} : { cert: readFileSync(ssl.cert) }),
    ...(ssl.key === null ? {} : { key: readFileSync(ssl.key) }),
  };
}

function kafkaCredentials({ log: { sasl } }: Config): KafkaCredentials {
  if (sasl.mechanism === 'oauthbearer') {
    if (sasl.token === null) throw missing('token');
    return { mechanism: 'oauthbearer', token: sasl.token };
  }
  if (sasl.username === null) throw missing('username');
  if (sasl.password === null) throw missing('password');
  return { mechanism: sasl.mechanism ?? 'plain', username: sasl.username, password: sasl.password };
}

function missing(key: string): ConfigError {
  return new ConfigError(
    `log.sasl.${key} is not set`,
    `the SASL mechanism needs it; give log.sasl.${key}, best as \${file:/run/secrets/…}`,
  );
}
