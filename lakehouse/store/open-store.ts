/** A lake's URI to its adapter. */
import { fileURLToPath } from 'node:url';
import { createFileStore } from './file-store.ts';
import { createMemoryStore } from './memory-store.ts';
import { createS3Store } from './s3-store.ts';
import type { S3StoreOptions } from './s3-store.ts';
import { StoreError } from './store.ts';
import type { ObjectStore } from './store.ts';

export type S3Settings = Partial<Omit<S3StoreOptions, 'bucket' | 'prefix'>>;

const SCHEME = /^([a-zA-Z][a-zA-Z0-9+.-]+):\/\//;

/**
 * @param uri a path, `file:///…`, `s3://bucket/prefix` (`s3a://` and `s3n://` are read as it), or `memory://name`
 * @param s3 for s3 URIs
 * @throws StoreError STORE_BAD_URI
 */
export function openStore(uri: string, s3: S3Settings = {}): ObjectStore {
  const scheme = SCHEME.exec(uri)?.[1]?.toLowerCase();
  switch (scheme) {
    case undefined:
      if (uri.trim() === '') throw new StoreError('STORE_BAD_URI', uri, 'the lake has no URI');
      return createFileStore(uri.startsWith('file:') ? filePath(`file://${uri.slice('file:'.length)}`) : uri);
    case 'file':
      return createFileStore(filePath(uri));
    case 's3':
    case 's3a':
    case 's3n':
      return createS3Store({ ...s3Defaults(s3), ...bucketAndPrefix(uri) });
    case 'memory':
      return createMemoryStore({ name: uri.slice('memory://'.length) });
    default:
      throw new StoreError(
        'STORE_BAD_URI',
        '',
        `no object store for "${scheme}://"; use a path, file:///…, s3://bucket/prefix or memory://name`,
      );
  }
}

function filePath(uri: string): string {
  try {
    return fileURLToPath(uri);
  } catch (error) {
    throw new StoreError('STORE_BAD_URI', '', 'not a local file URI; write file:///path', { cause: error });
  }
}

function bucketAndPrefix(uri: string): { readonly bucket: string; readonly prefix: string } {
  const rest = uri.replace(SCHEME, '');
  const slash = rest.indexOf('/');
  const bucket = slash < 0 ? rest : rest.slice(0, slash);
  const prefix = slash < 0 ? '' : rest.slice(slash + 1).replace(/^\/+|\/+$/g, '');
  if (bucket === '' || bucket.includes('@') || rest.includes('?')) {
    // Never the URI itself: someone may have put keys into it.
    throw new StoreError('STORE_BAD_URI', '', 'an S3 URI is s3://bucket/prefix, without credentials or query');
  }
  return { bucket, prefix };
}

function s3Defaults(s3: S3Settings): Omit<S3StoreOptions, 'bucket' | 'prefix'> {
  return { endpoint: null, region: 'us-east-1', forcePathStyle: true, kmsKeyId: null, ...s3 };
}
