/** Asks the keeper for a server that all test files of this worker share; it is started on first request. */
import { inject } from 'vitest';

export interface SharedPostgres {
  readonly url: string;
  readonly port: number;
  readonly password: string;
  readonly major: number;
}

export interface SharedServers {
  readonly pg14: SharedPostgres;
  readonly pg15: SharedPostgres;
  readonly pg16: SharedPostgres;
  readonly pg17: SharedPostgres;
  readonly pg18: SharedPostgres;
  readonly kafka: { readonly brokers: readonly string[] };
  readonly s3: {
    readonly endpoint: string;
    readonly region: string;
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly dataDir: string;
  };
}

/** @throws when it cannot be started; the message says why */
export async function sharedServer<Name extends keyof SharedServers>(name: Name): Promise<SharedServers[Name]> {
  const answer = await fetch(`${inject('serverKeeper')}/${process.env['VITEST_POOL_ID']}/${name}`);
  const body = await answer.text();
  if (!answer.ok) throw new Error(body);
  return JSON.parse(body) as SharedServers[Name];
}
