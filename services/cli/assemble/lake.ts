/** The configured lake: an object store at lake.uri, each request counted. */
import { readFileSync } from 'node:fs';
import { openStore } from '../../../lakehouse/store/open-store.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { Config } from '../../runtime/config.ts';
import type { Metrics } from '../../runtime/metrics.ts';

export interface StoreCounts {
  requests: number;
  sentBytes: number;
  receivedBytes: number;
}

export function openLake(config: Config, metrics: Metrics | null, counts: StoreCounts): ObjectStore {
  const { s3 } = config.lake;
  const pem = (path: string | null): string | undefined => (path === null ? undefined : readFileSync(path, 'utf8'));
  const [ca, cert, key] = [pem(s3.ssl.ca), pem(s3.ssl.cert), pem(s3.ssl.key)];
  return openStore(config.lake.uri, {
    endpoint: s3.endpoint,
    region: s3.region,
    forcePathStyle: s3.forcePathStyle,
    ...(s3.kmsKeyId === null ? {} : { kmsKeyId: s3.kmsKeyId }),
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    },
    onRequest(request) {
      counts.requests += 1;
      counts.sentBytes += request.sentBytes;
      counts.receivedBytes += request.receivedBytes;
      metrics?.storeRequests.inc({ operation: request.operation });
    },
  });
}
