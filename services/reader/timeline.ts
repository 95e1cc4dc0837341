/**
 * The server's timelines: every promotion begins a new one at some LSN of the old. Source: PostgreSQL docs, "Streaming
 * Replication Protocol", TIMELINE_HISTORY; a history file has a line for each ancestor: its number, where it was left, why.
 */
import { parseLsn, type Lsn } from '../log/position.ts';
import type { ReplicationSession } from './source.ts';

export interface Ancestor {
  readonly timeline: number;
  /** Where its successor began: what it has behind is not in the server's WAL. */
  readonly leftAt: Lsn;
}

export function parseTimelineHistory(text: string): readonly Ancestor[] {
  const ancestors: Ancestor[] = [];
  for (const line of text.split('\n')) {
    const match = /^\s*(\d+)\s+([0-9A-Fa-f]+\/[0-9A-Fa-f]+)/.exec(line);
    if (match !== null) ancestors.push({ timeline: Number(match[1]), leftAt: parseLsn(match[2] ?? '') });
  }
  return ancestors;
}

/** The first timeline has no history. Asked on the walsender's session, before it streams. */
export async function timelineAncestors(session: ReplicationSession, timeline: number): Promise<readonly Ancestor[]> {
  if (timeline <= 1) return [];
  const [row] = await session.query(`TIMELINE_HISTORY ${timeline}`);
  return parseTimelineHistory(row?.['content'] ?? '');
}
