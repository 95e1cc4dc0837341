/** Sessions for the workload: the source port runs plain statements, so parameters are written as quoted literals. */
import type { SourceSession } from '../../reader/source.ts';
import { quoteLiteral } from '../../reader/sql-text.ts';
import type { WorkloadSession } from './shop-workload.ts';

export function inlineSession(session: SourceSession): WorkloadSession {
  return {
    query: (sql, values = []) =>
      session.query(sql.replaceAll(/\$(\d+)/g, (_, n: string) => literal(values[Number(n) - 1]))),
  };
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return quoteLiteral(value);
  throw new TypeError(`a workload parameter is a ${typeof value}`);
}
