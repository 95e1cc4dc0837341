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

/** Where nobody asks for them, requests are counted for nothing. */
export function openLake(
  config: Config,
  metrics: Metrics | null = null,
  counts: StoreCounts = noCounts(),
): ObjectStore {
  return openAt(config.lake.uri, config, metrics, counts);
}

export const noCounts = (): StoreCounts => ({ requests: 0, sentBytes: 0, receivedBytes: 0 });

/** `stream.checkpoint` as a store and a folder in it; null = the lake's own place. */
export function openCheckpoint(config: Config): { readonly store: ObjectStore; readonly folder: string } | null {
  const uri = config.stream.checkpoint?.replace(/\/+$/, '') ?? null;
  if (uri === null) return null;
  const slash = uri.lastIndexOf('/');
  const [parent, folder] = slash < 1 ? ['.', uri] : [uri.slice(0, slash), uri.slice(slash + 1)];
  return { store: openAt(parent, config, null, noCounts()), folder };
}

function openAt(uri: string, config: Config, metrics: Metrics | null, counts: StoreCounts): ObjectStore {
  const { s3 } = config.lake;
  const pem = (path: string | null): string | undefined => (path === null ? undefined : readFileSync(path, 'utf8'));
  const [ca, cert, key] = [pem(s3.ssl.ca), pem(s3.ssl.cert), pem(s3.ssl.key)];
  return openStore(uri, {
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
