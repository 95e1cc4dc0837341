/** server.properties of a one-node Kafka: replication factor 1 everywhere, transactions included. Pure. */
export interface KafkaSecurity {
  /** PEM files: the CA that signed both sides, the server's certificate with its key (PKCS #8) in one file. */
  readonly ca: string;
  readonly keystore: string;
  /** Whether the SSL listener asks for client certificates. */
  readonly clientAuth?: 'none' | 'required';
  /** Names and passwords for PLAIN and SCRAM; OAUTHBEARER takes unsecured JSON web tokens. */
  readonly sasl?: { readonly users: Readonly<Record<string, string>> };
}

export interface KafkaPorts {
  readonly plaintext: number;
  readonly controller: number;
  readonly ssl: number | null;
  readonly sasl: number | null;
}

type Properties = Record<string, string | number | boolean>;

export function kafkaProperties(options: {
  readonly ports: KafkaPorts;
  readonly dataDir: string;
  readonly settings?: Readonly<Properties> | undefined;
  readonly security?: KafkaSecurity | undefined;
}): string {
  const { ports, security } = options;
  const listeners = [`PLAINTEXT://127.0.0.1:${ports.plaintext}`];
  if (ports.ssl !== null) listeners.push(`SSL://127.0.0.1:${ports.ssl}`);
  if (ports.sasl !== null) listeners.push(`SASL_SSL://127.0.0.1:${ports.sasl}`);
  const properties: Properties = {
    'node.id': 1,
    'process.roles': 'broker,controller',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    listeners: [...listeners, `CONTROLLER://127.0.0.1:${ports.controller}`].join(','),
    'advertised.listeners': listeners.join(','),
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL',
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': options.dataDir,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'auto.create.topics.enable': false,
    // A killed broker may register again only after its old session has ended; the default is 9 s.
    'broker.session.timeout.ms': 4000,
    'broker.heartbeat.interval.ms': 500,
    'group.initial.rebalance.delay.ms': 0,
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 4,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'transaction.state.log.num.partitions': 4,
    ...(security === undefined ? {} : tls(security)),
    ...(security?.sasl === undefined ? {} : sasl(security.sasl.users)),
    ...options.settings,
  };
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

function tls(security: KafkaSecurity): Properties {
  return {
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.location': security.keystore,
    'ssl.truststore.type': 'PEM',
    'ssl.truststore.location': security.ca,
    'listener.name.ssl.ssl.client.auth': security.clientAuth ?? 'none',
  };
}

/** JAAS values are quoted strings; our own user names and passwords hold no quotes. */
function sasl(users: Readonly<Record<string, string>>): Properties {
  const listener = 'listener.name.sasl_ssl';
  const module = 'org.apache.kafka.common.security';
  const plainUsers = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`);
  return {
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER',
    [`${listener}.plain.sasl.jaas.config`]: `${module}.plain.PlainLoginModule required ${plainUsers.join(' ')};`,
    [`${listener}.scram-sha-256.sasl.jaas.config`]: `${module}.scram.ScramLoginModule required;`,
    [`${listener}.scram-sha-512.sasl.jaas.config`]: `${module}.scram.ScramLoginModule required;`,
    [`${listener}.oauthbearer.sasl.jaas.config`]: `${module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
  };
}
