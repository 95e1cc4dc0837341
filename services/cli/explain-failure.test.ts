import { describe, expect, it } from 'vitest';
import { StoreError } from '../../lakehouse/store/store.ts';
import { ReaderError } from '../reader/reader-error.ts';
import { ConfigError, ExitCode, SluiceError } from '../runtime/errors.ts';
import { StreamError } from '../stream/stream-error.ts';
import { explainFailure } from './explain-failure.ts';

describe('explainFailure', () => {
  it('gives number, exit code and the remedy of the table', () => {
    expect(explainFailure(new StoreError('STORE_CONTAINER_MISSING', 'k', 'no bucket'))).toMatchObject({
      code: 'SLU-4002',
      exit: ExitCode.environment,
      remedy: 'create the bucket, or correct lake.uri',
    });
  });

  it("keeps an error's own remedy and exit code", () => {
    expect(explainFailure(new ReaderError('WAL_LEVEL', 'm', { remedy: 'the SQL' }))).toEqual({
      code: 'SLU-2012',
      message: 'm',
      remedy: 'the SQL',
      exit: ExitCode.environment,
    });
    const own = new SluiceError('NOT_IN_THE_TABLE', 'm', { exit: ExitCode.namedState, remedy: 'r' });
    expect(explainFailure(own)).toEqual({ code: null, message: 'm', remedy: 'r', exit: ExitCode.namedState });
    expect(explainFailure(new ConfigError('m', 'r'))).toMatchObject({ code: 'SLU-1001', exit: ExitCode.usage });
    expect(explainFailure(new StreamError('TOPIC_RESET', 'm', 'r'))).toMatchObject({
      code: 'SLU-6014',
      exit: ExitCode.namedState,
    });
  });

  it('looks through causes, and knows a break of continuity by its state', () => {
    const refused = Object.assign(new Error('connect refused'), { code: 'ECONNREFUSED' });
    expect(explainFailure(new Error('no status', { cause: refused }))).toMatchObject({
      code: 'SLU-1005',
      message: 'no status',
      exit: ExitCode.environment,
    });
    const broken = Object.assign(new ReaderError('CONTINUITY', 'm', { remedy: 'r' }), {
      broken: { state: 'SLOT_LOST' },
    });
    expect(explainFailure(broken)).toMatchObject({ code: 'SLU-6010', remedy: 'r', exit: ExitCode.namedState });
  });

  it('says of any other error how to see more', () => {
    expect(explainFailure(new Error('boom'))).toEqual({
      code: null,
      message: 'boom',
      remedy: 'set SLUICE_DEBUG=1 for the stack',
      exit: ExitCode.findings,
    });
    expect(explainFailure('text')).toMatchObject({ code: null, message: 'text', exit: ExitCode.findings });
  });
});
