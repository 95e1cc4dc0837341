import { describe, expect, it } from 'vitest';
import { canonicalPath, decodePath, encodePath, keyOfPath } from './file-path.ts';

describe('file paths of the log', () => {
  it('decodes once: a directory that was escaped for its name keeps that escape', () => {
    expect(decodePath('s=a%20b%252Fc%2525%253D%253A%C3%A9/x.parquet')).toBe('s=a b%2Fc%25%3D%3Aé/x.parquet');
  });
  it('leaves a malformed escape as it stands', () => {
    expect(decodePath('100%/a%20b/%ff.parquet')).toBe('100%/a b/%ff.parquet');
  });
  it('gives one name to every spelling of an absolute path', () => {
    const spellings = [
      '/some/with%20space/p@%23h',
      'file:/some/with%20space/p@%23h',
      'file:///some/with%20space/p@%23h',
    ];
    expect(new Set(spellings.map(canonicalPath))).toEqual(new Set(['/some/with space/p@#h']));
    expect(canonicalPath('s3a://b/t/x.parquet')).toBe(canonicalPath('s3://b/t/x.parquet'));
  });
  it('finds the key of an absolute path below the root, and none elsewhere', () => {
    expect(keyOfPath('s3a://b/lake/t/p=1/x%20y.parquet', 's3://b/lake/t')).toBe('p=1/x y.parquet');
    expect(keyOfPath('s3://other/t/x.parquet', 's3://b/lake/t')).toBeNull();
    expect(keyOfPath('file:/lake/t/x.parquet', 'file:///lake/t')).toBe('x.parquet');
  });
  it('encodes a key so that decoding gives it back', () => {
    for (const key of ['a b/c%=:é', 'p=ä %41/#?.parquet']) expect(decodePath(encodePath(key))).toBe(key);
  });
});
