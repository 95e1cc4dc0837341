/** The workload's sessions: each goes on with its next transaction after the server was killed under it. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createFaultWorkload } from './fault-workload.ts';

export interface RunningWorkload {
  stop(): Promise<{ readonly transactions: number }>;
}

const SESSIONS = 2;
const PACE_MS = 4;

/** `onRefused`: a statement that the server refused for another reason than a lock or its own death. */
export function startWorkload(url: string, seed: number, onRefused: (why: string) => void): RunningWorkload {
  const abort = new AbortController();
  let transactions = 0;
  const work = async (session: number): Promise<void> => {
    const workload = createFaultWorkload(seed, session);
    let client: pg.Client | null = null;
    while (!abort.signal.aborted) {
      try {
        client ??= await connect(url);
        for (const statement of workload.next()) await client.query(statement);
        transactions += 1;
      } catch (error) {
        const code = (error as { code?: string }).code ?? '';
        // Lock timeouts and deadlocks end the transaction; a dead server, the session.
        if (client !== null && /^(40|55|57014|23505)/.test(code)) await client.query('rollback').catch(() => undefined);
        else {
          if (/^(42|22|23|0A)/.test(code)) onRefused(String(error));
          await client?.end().catch(() => undefined);
          client = null;
          await sleep(150);
        }
      }
      await sleep(PACE_MS);
    }
    await client?.end().catch(() => undefined);
  };
  const all = Promise.all(Array.from({ length: SESSIONS }, (_, session) => work(session)));
  return {
    async stop() {
      abort.abort();
      await all;
      return { transactions };
    },
  };
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  // A server that is killed ends idle connections; the next query reports it.
  client.on('error', () => undefined);
  await client.connect();
  await client.query(`set lock_timeout = '2s'; set statement_timeout = '20s'`);
  return client;
}
