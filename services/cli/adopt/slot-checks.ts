/** Whether a slot and publication that something else made can be gone on with. Nothing is changed. */
import { formatLsn, type Lsn } from '../../log/position.ts';
import { findPublication, requireComplete, missingTables, type Publication } from '../../reader/publication.ts';
import { ReaderError } from '../../reader/reader-error.ts';
import { findSlot, invalidation, type SlotState } from '../../reader/slot.ts';
import type { SourceSession } from '../../reader/source.ts';
import { quoteLiteral, quoteTable } from '../../reader/sql-text.ts';
import { selectTables, type SelectedTables } from '../../reader/table-selection.ts';
import type { Config } from '../../runtime/config.ts';
import { fine, note, refused, type AdoptFinding } from './finding.ts';

export interface SlotLook {
  readonly slot: SlotState | null;
  readonly publication: Publication | null;
  readonly selected: SelectedTables;
  /** Where the slot goes on; null = there is no such place. */
  readonly from: Lsn | null;
  readonly findings: readonly AdoptFinding[];
}

/** `asked`: LSN up to which the lake's tables are known to hold everything; null = nobody said. */
export async function lookAtSlot(session: SourceSession, config: Config, asked: Lsn | null): Promise<SlotLook> {
  const [row] = await session.query('select current_database() as name');
  const slot = await findSlot(session, config.source.slot);
  const publication = await findPublication(session, config.source.publication);
  const selected = await selectTables(session, config.source.tables, config.log.kind);
  const findings = [
    ...slotFindings(slot, config.source.slot, row?.['name'] ?? '', asked),
    ...publicationFindings(publication, config.source.publication, selected),
    ...selected.refused.map(({ schema, table, error }) =>
      refused(error.code, `${schema}.${table}`, error.message, error.remedy),
    ),
  ];
  if (selected.taken.length === 0)
    findings.push(
      refused(
        'NO_TABLES',
        'source.tables',
        `no table matches ${config.source.tables.join(', ')}`,
        'correct source.tables',
      ),
    );
  return { slot, publication, selected, from: slot?.confirmedFlushLsn ?? null, findings };
}

export function slotFindings(
  slot: SlotState | null,
  name: string,
  database: string,
  asked: Lsn | null,
): readonly AdoptFinding[] {
  const about = `slot ${name}`;
  if (slot === null)
    return [
      refused(
        'SLOT_LOST',
        about,
        'there is no such slot',
        "set source.slot to the connector's slot.name; without a slot, `sluice run` reads the tables anew",
      ),
    ];
  const wrong: AdoptFinding[] = [];
  if (slot.plugin !== 'pgoutput')
    wrong.push(
      refused(
        'SLOT_FOREIGN',
        about,
        `it uses the plugin ${slot.plugin}, not pgoutput`,
        'a slot cannot change its plugin: let the connector go on with plugin.name=pgoutput and a new slot, or let `sluice run` read the tables anew with a slot of its own',
      ),
    );
  if (slot.database !== database)
    wrong.push(
      refused(
        'SLOT_FOREIGN',
        about,
        `it belongs to database "${slot.database}", not "${database}"`,
        'point source.postgres at that database, or source.slot at another slot',
      ),
    );
  if (slot.temporary)
    wrong.push(refused('SLOT_FOREIGN', about, 'it is temporary, and ends with its session', 'make a lasting slot'));
  if (slot.active)
    wrong.push(
      refused(
        'SLOT_IN_USE',
        about,
        `process ${slot.activePid ?? 0} streams from it`,
        'stop the connector in order, let what writes the lake come to the end of its topics, then stop that, too',
      ),
    );
  const gone = invalidation(slot);
  if (gone !== null)
    wrong.push(
      refused(
        'SLOT_INVALIDATED',
        about,
        `PostgreSQL no longer keeps its WAL (${gone})`,
        `drop it (SELECT pg_drop_replication_slot(${quoteLiteral(name)})) and let \`sluice run\` read the tables anew`,
      ),
    );
  else if (slot.confirmedFlushLsn === null)
    wrong.push(refused('ADOPT_POSITION', about, 'it has no confirmed position', 'let its connector confirm one first'));
  else if (asked !== null && asked < slot.confirmedFlushLsn)
    wrong.push(
      refused(
        'ADOPT_POSITION',
        about,
        `it was confirmed up to ${formatLsn(slot.confirmedFlushLsn)}, and the lake holds everything only up to ${formatLsn(asked)}: what lies between is not in the WAL that would come`,
        'let what writes the lake come to the end of its topics first; or adopt the topics (log.debezium) from their offsets',
      ),
    );
  if (wrong.length > 0) return wrong;
  const at = formatLsn(slot.confirmedFlushLsn ?? 0n);
  return [
    fine(about, `pgoutput, free, confirmed up to ${at}: streaming goes on there`),
    ...(asked === null
      ? [
          note(
            about,
            `nobody said that the lake holds everything up to ${at}`,
            'give --lsn with what the lake was written to, or compare with `sluice verify` afterwards',
          ),
        ]
      : []),
  ];
}

export function publicationFindings(
  publication: Publication | null,
  name: string,
  { taken }: SelectedTables,
): readonly AdoptFinding[] {
  const about = `publication ${name}`;
  if (publication === null)
    return [
      refused(
        'PUBLICATION_DENIED',
        about,
        'there is no such publication',
        "set source.publication to the connector's publication.name: the slot's WAL must be read with a publication that stood there when it was written",
      ),
    ];
  const out: AdoptFinding[] = [];
  try {
    requireComplete(
      publication,
      taken.some(({ relkind }) => relkind === 'p'),
    );
  } catch (error) {
    if (!(error instanceof ReaderError)) throw error;
    out.push(refused(error.code, about, error.message, error.remedy));
  }
  for (const { schema, table, rowFilter } of publication.tables)
    if (rowFilter !== null && taken.some((each) => each.schema === schema && each.table === table))
      out.push(note(`${schema}.${table}`, `the publication sends only rows where ${rowFilter}`, ''));
  for (const { schema, table } of missingTables(publication, taken))
    out.push(
      refused(
        'PUBLICATION_MISSING_TABLE',
        `${schema}.${table}`,
        `it is not in publication "${name}": its changes since the slot's position did not come`,
        `leave it out (source.tables: '!${schema}.${table}') and \`sluice add\` it afterwards, which reads it (${quoteTable(schema, table)})`,
      ),
    );
  if (!out.some(({ level }) => level === 'refused'))
    out.unshift(fine(about, `sends all four kinds of change of ${taken.length} tables`));
  return out;
}
