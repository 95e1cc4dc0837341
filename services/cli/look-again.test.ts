import { expect, it } from 'vitest';
import type { PostgresSource, SourceSession } from '../reader/source.ts';
import { lookAgainAt } from './look-again.ts';

/** A server whose sessions answer `there` one after the other, the last for ever. */
function server(
  name: string,
  ...there: string[]
): PostgresSource & { readonly asked: string[]; readonly open: Set<string> } {
  const asked: string[] = [];
  const open = new Set<string>();
  const session = async (purpose: string): Promise<SourceSession> => {
    open.add(purpose);
    return Promise.resolve({
      name,
      query: async (sql: string) => {
        asked.push(sql);
        const answer = there.length > 1 ? there.shift() : there[0];
        return Promise.resolve([{ lsn: '0/50', there: answer ?? null }]);
      },
      close: async () => {
        open.delete(purpose);
        return Promise.resolve();
      },
    } as unknown as SourceSession);
  };
  return { asked, open, session } as unknown as PostgresSource & {
    readonly asked: string[];
    readonly open: Set<string>;
  };
}
const nameOf = (session: SourceSession): unknown => (session as unknown as { name: string }).name;

it('looks again at a replica once that has replayed what the lake may have, else at the primary', async () => {
  let nowMs = 0;
  const clock = { now: () => nowMs, sleep: async (ms: number) => Promise.resolve(void (nowMs += ms)) };
  const slow = server('replica', 'f', 'f', 't');
  expect(nameOf(await lookAgainAt(server('primary'), slow, clock))).toBe('replica');
  expect(slow.asked).toHaveLength(3);
  expect(slow.asked[0]).toContain("'0/50'");
  const paused = server('replica', 'f');
  expect(nameOf(await lookAgainAt(server('primary'), paused, clock))).toBe('primary');
  expect(paused.open.size).toBe(0);
});
