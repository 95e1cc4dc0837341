import { describe, expect, it } from 'vitest';
import { toStoreError } from './s3-errors.ts';

const answer = (name: string, status: number): Error =>
  Object.assign(new Error('as the store says'), { name, $metadata: { httpStatusCode: status } });

describe('what S3 answers', () => {
  it.each(['RequestTimeout', 'RequestTimeoutException', 'IncompleteBody'])(
    'is a request that was slow or cut off on its way (400 %s), and passes',
    (name) => {
      expect(toStoreError(answer(name, 400), 'k', 's3://b', 'write').code).toBe('STORE_UNAVAILABLE');
      expect(toStoreError(answer(name, 400), 'k', 's3://b', 'write', true).code).toBe('STORE_OUTCOME_UNKNOWN');
    },
  );

  it('is a bad request when nothing is known of it', () => {
    expect(toStoreError(answer('InvalidRequest', 400), 'k', 's3://b', 'write').code).toBe('STORE_BAD_URI');
  });
});
