import { expect, test } from 'vitest';
import { findPublication } from './publication.ts';
import { serverError } from './server-error.ts';
import type { SourceSession } from './source.ts';

/** A session whose first answers are these failures. */
function sessionFailing(...sqlstates: string[]): SourceSession {
  return {
    serverVersion: 180_000,
    backendPid: 1,
    closed: false,
    query() {
      const sqlstate = sqlstates.shift();
      if (sqlstate === undefined) return Promise.resolve([{ j: '{"oid": 7, "name": "p", "tables": []}' }]);
      return Promise.reject(serverError({ sqlstate, message: 'could not open relation with OID 5' }, 'query'));
    },
    rows: () => Promise.resolve(0),
    close: () => Promise.resolve(),
  };
}

test('a table that is dropped while the publication is looked at does not fail the look', async () => {
  expect(await findPublication(sessionFailing('XX000', 'XX000'), 'p')).toMatchObject({ oid: 7 });
  await expect(findPublication(sessionFailing('42501'), 'p')).rejects.toMatchObject({ code: 'SOURCE_ACCESS_DENIED' });
  await expect(findPublication(sessionFailing(...Array<string>(50).fill('XX000')), 'p')).rejects.toThrow('OID 5');
});
