import { expect, it } from 'vitest';
import { serverError } from '../../reader/server-error.ts';
import type { SourceSession } from '../../reader/source.ts';
import { refusalOfAlter } from './add.ts';

function failing(...sqlstates: string[]): SourceSession {
  const query = async (): Promise<readonly []> => {
    const sqlstate = sqlstates.shift();
    if (sqlstate === undefined) return Promise.resolve([]);
    return Promise.reject(serverError({ sqlstate, message: 'as the server says' } as never, 'query'));
  };
  return { query, closed: false } as unknown as SourceSession;
}

it('what gave way in a deadlock is asked again, and is no want of a right', async () => {
  expect(await refusalOfAlter(failing('40P01', '55P03'), 'ALTER')).toBeNull();
  await expect(refusalOfAlter(failing(...Array<string>(9).fill('40P01')), 'ALTER')).rejects.toThrow('40P01');
  expect(await refusalOfAlter(failing('42501'), 'ALTER')).toContain('as the server says');
});
