/**
 * Has the source's WAL gone on from where we stood, and are the tables still those that we follow? Pure comparisons of what
 * was saved with what is there (DESIGN invariant 8: broken continuity stops, by name; nothing continues past a gap).
 */
import { formatLsn } from '../log/position.ts';
import type { ReaderPosition, TableSeen, TableState } from './reader-state.ts';
import { invalidation, type SlotState } from './slot.ts';
import type { Ancestor } from './timeline.ts';

export type SourceBreak =
  | 'SLOT_LOST'
  | 'SLOT_INVALIDATED'
  | 'SLOT_MOVED'
  | 'SYSTEM_CHANGED'
  | 'TOPIC_RESET'
  | 'PUBLICATION_CHANGED';
export type TableBreak =
  | 'TABLE_REPLACED'
  | 'TABLE_REWRITTEN'
  | 'TABLE_MISSING'
  | 'KEY_CHANGED'
  | 'PARTITIONS_CHANGED'
  | 'PUBLICATION_CHANGED'
  | 'SNAPSHOT_FAILED';

export interface Break<State extends string> {
  readonly state: State;
  /** What was expected and what was found. */
  readonly detail: string;
  /** The lost piece of the order, where it is known: GAP(from..to). */
  readonly gap: { readonly from: bigint; readonly to: bigint } | null;
}

export interface SourceNow {
  readonly systemIdentifier: string;
  readonly timeline: number;
  /** Timelines that the server's own descends from, and where each was left. */
  readonly ancestors: readonly Ancestor[];
  readonly logId: string;
  readonly publication?: string;
  readonly slot: SlotState | null;
  /** Where the server's WAL ends. */
  readonly walLsn: bigint;
}

/** What a reader with a saved position finds; null = it may go on. */
export function sourceBreak(saved: ReaderPosition, now: SourceNow): Break<SourceBreak> | null {
  const { slot } = now;
  if (saved.logId !== now.logId) {
    return found('TOPIC_RESET', `the log's identity was ${saved.logId} and is now ${now.logId}`);
  }
  if (saved.systemIdentifier !== now.systemIdentifier) {
    return found(
      'SYSTEM_CHANGED',
      `the database system was ${saved.systemIdentifier} and is now ${now.systemIdentifier}`,
    );
  }
  const branched = saved.timeline === now.timeline ? null : branchBelow(saved, now);
  if (branched !== null) return branched;
  if (now.walLsn < saved.confirmLsn) {
    return found(
      'SYSTEM_CHANGED',
      `the WAL ends at ${formatLsn(now.walLsn)}, below our position ${formatLsn(saved.confirmLsn)}: an older copy was restored`,
    );
  }
  const gap = { from: saved.confirmLsn, to: now.walLsn };
  if (slot === null) return slotLost(saved.slot, gap);
  if (invalidation(slot) !== null) return slotInvalidated(slot, gap);
  const confirmed = slot.confirmedFlushLsn ?? 0n;
  if (confirmed > saved.confirmLsn) {
    return found(
      'SLOT_MOVED',
      `replication slot "${slot.name}" stands at ${formatLsn(confirmed)}, beyond our ${formatLsn(saved.confirmLsn)}`,
      {
        from: saved.confirmLsn,
        to: confirmed,
      },
    );
  }
  return publicationBreak(saved.publication, now.publication);
}

type Gap = NonNullable<Break<SourceBreak>['gap']>;

/** The WAL goes on; what the publication left out of the stream between the two definitions nobody will send again. */
export function publicationBreak(
  saved: string | undefined,
  now: string | undefined,
): Break<'PUBLICATION_CHANGED'> | null {
  if (saved === undefined || now === undefined || saved === now) return null;
  const recreated = saved.split('/')[0] !== now.split('/')[0];
  return {
    state: 'PUBLICATION_CHANGED',
    detail: `the publication was ${recreated ? 'dropped and made again' : 'altered'}: what it left out meanwhile is not in the log`,
    gap: null,
  };
}

function slotLost(slot: string, gap: Gap): Break<SourceBreak> {
  return found('SLOT_LOST', `replication slot "${slot}" does not exist any more`, gap);
}

function slotInvalidated(slot: SlotState, gap: Gap): Break<SourceBreak> {
  return found('SLOT_INVALIDATED', `replication slot "${slot.name}" was invalidated (${invalidation(slot)})`, gap);
}

/**
 * A promoted standby goes on with the same WAL up to where it left the old timeline. What we read of the old one behind that
 * place never happened on this server, however far its own WAL has come since.
 */
function branchBelow(saved: ReaderPosition, now: SourceNow): Break<SourceBreak> | null {
  const left = now.ancestors.find(({ timeline }) => timeline === saved.timeline)?.leftAt;
  if (left === undefined)
    return found('SYSTEM_CHANGED', `timeline ${now.timeline} does not descend from our timeline ${saved.timeline}`);
  if (left >= saved.confirmLsn) return null;
  return found(
    'SYSTEM_CHANGED',
    `timeline ${now.timeline} left timeline ${saved.timeline} at ${formatLsn(left)}, below our position ${formatLsn(saved.confirmLsn)}: what we read behind it is not on this server`,
  );
}

/** What the catalog says of a followed table now; null = it is not there. */
export interface TableNow {
  readonly oid: number;
  readonly key: readonly string[];
  readonly heaps: readonly { readonly schema: string; readonly table: string; readonly relfilenode: number }[];
  readonly partitioned: boolean;
  readonly published: boolean;
  readonly rowFilter: string | null;
  readonly columnList: readonly string[] | null;
  /** What has it in the publication (publication.ts). */
  readonly entries: readonly string[];
}

/** What ends a table's state. */
export function tableRemedy(state: string, name: string): string {
  const repair = `sluice repair ${name}`;
  if (state === 'TABLE_MISSING')
    return `let it go by \`sluice remove ${name}\`, or create it again and run \`${repair}\``;
  return state === 'SNAPSHOT_FAILED' ? `mend what the reason names, then run \`${repair}\`` : repair;
}

/** What was last known of it. Null fields were never seen. */
export interface TableKnown {
  readonly state: TableState;
  readonly key: readonly string[] | null;
  readonly now: TableNow | null;
}

/**
 * Changes that bring no row events. A rewrite shows as another relfilenode; a TRUNCATE and a CLUSTER do, too, and harm
 * nothing, so the caller asks only about rewrites that its stream has not explained.
 */
export function tableBreak(known: TableKnown, now: TableNow | null): Break<TableBreak> | null {
  const name = `${known.state.schema}.${known.state.table}`;
  if (now === null) return found('TABLE_MISSING', `table ${name} does not exist any more`);
  if (now.oid !== known.state.oid) {
    return found('TABLE_REPLACED', `table ${name} had OID ${known.state.oid} and is now another table, OID ${now.oid}`);
  }
  if (!now.published) return found('PUBLICATION_CHANGED', `table ${name} is not in the publication any more`);
  if (known.key !== null && !same(known.key, now.key)) {
    return found('KEY_CHANGED', `the key of ${name} was (${known.key.join(', ')}) and is now (${now.key.join(', ')})`);
  }
  const before = known.now;
  // As it was read, not as it was first looked at: the publication may have changed between, or while no reader ran.
  const scope = known.state.published ?? before;
  if (scope !== null && (scope.rowFilter !== now.rowFilter || !same(scope.columnList ?? [], now.columnList ?? []))) {
    return found('PUBLICATION_CHANGED', `row filter or column list of ${name} changed`);
  }
  const entries = scope?.entries ?? [];
  if (entries.length > 0 && !entries.some((entry) => now.entries.includes(entry))) {
    return found(
      'PUBLICATION_CHANGED',
      `table ${name} left the publication and came back: what changed in it meanwhile is not in the log`,
    );
  }
  if (before !== null && now.partitioned && !same(partitions(before), partitions(now))) {
    return found(
      'PARTITIONS_CHANGED',
      `partitions of ${name} were ${partitions(before).join(', ')} and are now ${partitions(now).join(', ')}`,
    );
  }
  return null;
}

/**
 * DDL that changes values and sends no row events; null = none. A new column whose old rows have a value, one that was dropped
 * and added again, one that has another name, and a type that was changed by rewriting the table. The caller reads the table again (TABLE_REWRITTEN).
 */
export function rewriteOf(before: TableSeen, now: TableSeen): string | null {
  const rewritten = Object.entries(now.files).some(
    ([heap, file]) => before.files[heap] !== undefined && before.files[heap] !== file,
  );
  for (const column of now.attributes) {
    const known = before.attributes.find((each) => each.attnum === column.attnum);
    if (known === undefined) {
      if (before.attributes.some((each) => each.name === column.name))
        return `column ${column.name} was dropped and added again`;
      if (column.hasDefault || rewritten)
        return `column ${column.name} was added with a value for the rows that were there`;
    } else if (rewritten && (known.typeOid !== column.typeOid || known.typeModifier !== column.typeModifier)) {
      return `the type of column ${column.name} was changed by rewriting the table`;
    } else if (known.name !== column.name) {
      return `column ${known.name} was renamed to ${column.name}`;
    }
  }
  return null;
}

/**
 * A leaf that has another file. TRUNCATE of one leaf is not sent where partitions are published as their root, and to the
 * catalog it looks like VACUUM FULL. One of the whole table is sent, and gives every leaf another file. Null = none.
 */
export function leafRefilled(before: TableSeen, now: TableSeen, truncated: boolean): string | null {
  const leavesNow = Object.entries(now.files);
  const refilled = leavesNow.filter(([leaf, file]) => before.files[leaf] !== undefined && before.files[leaf] !== file);
  if (truncated && refilled.length === leavesNow.length) return null;
  return refilled[0]?.[0] ?? null;
}

/** Leaf partitions that are there now and were not, and the other way. */
function partitions(table: TableNow): readonly string[] {
  return table.heaps.map((heap) => `${heap.schema}.${heap.table}`).sort();
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}

function found<State extends string>(state: State, detail: string, gap: Break<State>['gap'] = null): Break<State> {
  return { state, detail, gap };
}
