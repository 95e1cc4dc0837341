/** The shared S3 server, with a fresh bucket of the test's own. */
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { sharedServer } from './shared-server.ts';

export interface TestBucket {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly bucket: string;
  /** `s3://<bucket>` */
  readonly uri: string;
  /** For the SDK's default provider chain: put it into a child's environment, or assign it to process.env. */
  readonly environment: Readonly<Record<'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY' | 'AWS_REGION', string>>;
}

export async function getS3(): Promise<TestBucket> {
  const { endpoint, region, accessKeyId, secretAccessKey, dataDir } = await sharedServer('s3');
  const bucket = `t-${randomBytes(6).toString('hex')}`;
  // Every folder below the gateway's root is a bucket.
  await mkdir(join(dataDir, 'buckets', bucket));
  return {
    endpoint,
    region,
    accessKeyId,
    secretAccessKey,
    bucket,
    uri: `s3://${bucket}`,
    environment: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_REGION: region },
  };
}
