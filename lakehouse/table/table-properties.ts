/** Table properties that may be set, and the features that some of them need (PROTOCOL.md, "Table Properties" of each feature). */
import type { Snapshot } from './snapshot.ts';
import { parseInterval } from './interval.ts';
import { TableError } from './table-error.ts';

interface Rule {
  readonly valid: (value: string) => boolean;
  /** Features that the value `true` needs. */
  readonly reader?: readonly string[];
  readonly writer?: readonly string[];
}

const BOOLEAN = (value: string): boolean => value === 'true' || value === 'false';
const INTERVAL = (value: string): boolean => parseInterval(value) !== null;
const ANY = (): boolean => true;

const RULES: Readonly<Record<string, Rule>> = {
  'delta.appendOnly': { valid: BOOLEAN, writer: ['appendOnly'] },
  'delta.autoOptimize.autoCompact': { valid: ANY },
  'delta.autoOptimize.optimizeWrite': { valid: BOOLEAN },
  'delta.checkpointInterval': { valid: (value) => /^[1-9]\d{0,8}$/.test(value) },
  'delta.checkpoint.writeStatsAsJson': { valid: BOOLEAN },
  'delta.checkpoint.writeStatsAsStruct': { valid: BOOLEAN },
  'delta.dataSkippingNumIndexedCols': { valid: (value) => /^(?:-1|\d{1,6})$/.test(value) },
  'delta.dataSkippingStatsColumns': { valid: ANY },
  'delta.deletedFileRetentionDuration': { valid: INTERVAL },
  'delta.enableChangeDataFeed': { valid: BOOLEAN, writer: ['changeDataFeed'] },
  'delta.enableDeletionVectors': { valid: BOOLEAN, reader: ['deletionVectors'], writer: ['deletionVectors'] },
  'delta.enableExpiredLogCleanup': { valid: BOOLEAN },
  'delta.enableInCommitTimestamps': { valid: BOOLEAN, writer: ['inCommitTimestamp'] },
  'delta.isolationLevel': { valid: (value) => value === 'Serializable' || value === 'WriteSerializable' },
  'delta.logRetentionDuration': { valid: INTERVAL },
  'delta.targetFileSize': { valid: ANY },
  'delta.tuneFileSizesForRewrites': { valid: BOOLEAN },
};

/**
 * The configuration after the change, and what the protocol must list for it. Properties without `delta.` are free.
 * @throws TableError UPKEEP_REFUSED for a property or value that this code could not honour
 */
export function changedProperties(
  snapshot: Snapshot,
  set: Readonly<Record<string, string | null>>,
  commit: { readonly commitVersion: bigint; readonly commitMs: number },
): {
  readonly configuration: Readonly<Record<string, string>>;
  readonly features: { readonly reader: readonly string[]; readonly writer: readonly string[] };
} {
  const configuration: Record<string, string> = { ...snapshot.metadata.configuration };
  const reader: string[] = [];
  const writer: string[] = [];
  for (const [name, value] of Object.entries(set)) {
    const rule = ruleOf(snapshot, name, value);
    if (value === null) delete configuration[name];
    else configuration[name] = value;
    if (value !== 'true') continue;
    reader.push(...(rule?.reader ?? []));
    writer.push(...(rule?.writer ?? []));
  }
  const stamped = 'delta.enableInCommitTimestamps';
  if (set[stamped] === 'true' && snapshot.metadata.configuration[stamped] !== 'true') {
    // From here on times can be trusted; readers must know from where.
    configuration['delta.inCommitTimestampEnablementVersion'] = String(commit.commitVersion);
    configuration['delta.inCommitTimestampEnablementTimestamp'] = String(commit.commitMs);
  }
  return { configuration, features: { reader, writer } };
}

function ruleOf(snapshot: Snapshot, name: string, value: string | null): Rule | null {
  if (!name.startsWith('delta.')) return null;
  const refuse = (why: string): TableError =>
    new TableError(
      'UPKEEP_REFUSED',
      { table: snapshot.store.uri, version: snapshot.version },
      `property ${name}: ${why}`,
    );
  if (name === 'delta.setTransactionRetentionDuration') {
    throw refuse('transactions are kept for ever here: without them an old batch would be applied again');
  }
  const rule = RULES[name];
  if (rule === undefined) throw refuse('this version does not know how to honour it');
  if (value !== null && !rule.valid(value)) throw refuse('the value is not one that it may have');
  return rule;
}
