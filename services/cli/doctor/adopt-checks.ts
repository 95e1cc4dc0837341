/** Whether lake tables that something else wrote could be taken over by `sluice adopt`; silent where there are none. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { epochAppId } from '../../ingest/txn-ids.ts';
import type { SourceSession } from '../../reader/source.ts';
import { selectTables } from '../../reader/table-selection.ts';
import type { Config } from '../../runtime/config.ts';
import { lookAtSource } from '../adopt/look.ts';
import { readIdentity } from '../assemble/identity.ts';
import { openLake } from '../assemble/lake.ts';
import { openTable } from '../verify-tables.ts';

interface TakeoverLine {
  readonly name: 'takeover';
  readonly status: 'ok' | 'warning' | 'error';
  readonly detail: string;
  readonly fix: string;
}

export async function checkTakeover(
  config: Config,
  session: SourceSession,
  report: (line: TakeoverLine) => void,
): Promise<void> {
  const lake = openLake(config);
  try {
    if ((await readIdentity(lake)) !== null || !(await hasForeignTable(config, session, lake))) return;
    const options = { config, lake, allowMissing: false, scanKeys: false };
    const { findings } = await lookAtSource(session, options, null, 0);
    for (const { level, word, about, detail, fix } of findings) {
      const status: TakeoverLine['status'] = level === 'ok' ? 'ok' : level === 'note' ? 'warning' : 'error';
      report({ name: 'takeover', status, detail: `${about}: ${word === null ? '' : `${word}: `}${detail}`, fix });
    }
    const safe = !findings.some(({ level }) => level === 'refused');
    report({
      name: 'takeover',
      status: 'warning',
      detail: `the lake has tables that something else wrote: ${safe ? 'they can be taken over' : 'as they are they cannot be taken over'}`,
      fix: safe
        ? '`sluice adopt` shows how, and counts their keys'
        : '`sluice repair TABLE` reads one again whole instead',
    });
  } finally {
    await lake.close();
  }
}

async function hasForeignTable(config: Config, session: SourceSession, lake: ObjectStore): Promise<boolean> {
  for (const { schema, table } of (await selectTables(session, config.source.tables, config.log.kind)).taken) {
    const snapshot = await openTable(lake, tableFolder(schema, table));
    if (snapshot !== null && snapshot.files.count > 0 && !snapshot.txns.has(epochAppId(config.name))) return true;
  }
  return false;
}
