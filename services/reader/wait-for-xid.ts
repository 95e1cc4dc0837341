import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceSession } from './source.ts';
import { parseSnapshot } from './visibility.ts';

/** Every transaction that ran when the publication changed must have ended: the stream has only part of what it wrote. */
export async function waitForXid(session: SourceSession, xid: string | null, stopped: () => boolean): Promise<void> {
  if (xid === null) return;
  const wanted = BigInt(xid);
  while (!stopped()) {
    const [row] = await session.query('SELECT pg_current_snapshot() AS s');
    if (parseSnapshot(row?.['s'] ?? '').xmin >= wanted) return;
    await sleep(200);
  }
}
