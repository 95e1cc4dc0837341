/** Whether a lake table that another writer made can be merged into from here on. Nothing is changed. */
import { checkKeys } from '../../../lakehouse/read/repeated-keys.ts';
import { assertWritable } from '../../../lakehouse/table/protocol.ts';
import type { StructField } from '../../../lakehouse/table/schema.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { TableError } from '../../../lakehouse/table/table-error.ts';
import { COMMITTED_AT, type TablePlan } from '../../ingest/table-plan.ts';
import { fine, note, refused, type AdoptFinding } from './finding.ts';

export interface LakeTableLook {
  /** `schema.table`. */
  readonly id: string;
  readonly snapshot: Snapshot;
  readonly plan: TablePlan;
  /** Columns that only the source has are left NULL in the rows that stand there, until a backfill of these columns. */
  readonly allowMissing: boolean;
  /** Scan the key columns; the doctor leaves that to `sluice adopt --dry-run`. */
  readonly scanKeys: boolean;
  readonly signal?: AbortSignal;
}

export async function lookAtLakeTable(look: LakeTableLook): Promise<readonly AdoptFinding[]> {
  const { id, snapshot, plan, scanKeys, signal } = look;
  if (plan.bag)
    return [
      refused(
        'TABLE_NO_KEY',
        id,
        'it has no key, and rows without a key are known by what the first read made of them',
        `give it a primary key; or move the lake's table aside and let \`sluice add ${id}\` read it`,
      ),
    ];
  const wrong = [...writable(id, snapshot), ...columns(look)];
  if (wrong.some(({ level }) => level === 'refused')) return wrong;
  const keys = keysIn(snapshot, plan);
  if (!scanKeys)
    return [
      ...wrong,
      note(id, 'its keys were not counted', '`sluice adopt --dry-run` looks whether one is there twice'),
    ];
  const options = signal === undefined ? {} : { signal };
  const { rows, nullRows, repeatedKeys } = await checkKeys(
    snapshot,
    keys.map(({ name }) => name),
    options,
  );
  const shown = keys.map(({ name }) => name).join(', ');
  if (nullRows > 0 || repeatedKeys > 0)
    return [
      ...wrong,
      refused(
        'LAKE_KEY_REPEATED',
        id,
        [
          ...(repeatedKeys > 0 ? [`${repeatedKeys} keys (${shown}) stand in more than one of its ${rows} rows`] : []),
          ...(nullRows > 0 ? [`${nullRows} rows have NULL in (${shown})`] : []),
        ].join('; '),
        `leave one row a key, with what wrote the table; or leave it to \`sluice repair ${id}\`, which reads it again whole`,
      ),
    ];
  return [fine(id, `${rows} rows, (${shown}) is a key, version ${snapshot.version}`), ...wrong];
}

function keysIn(snapshot: Snapshot, plan: TablePlan): readonly StructField[] {
  return plan.keyColumns.flatMap((name) => {
    const field = fieldOf(snapshot, name);
    return field === undefined ? [] : [field];
  });
}

const fieldOf = ({ schema }: Snapshot, name: string): StructField | undefined =>
  schema.fields.find((field) => field.name.toLowerCase() === name.toLowerCase());

function writable(id: string, { protocol, metadata, store }: Snapshot): readonly AdoptFinding[] {
  try {
    assertWritable(protocol, metadata, store.uri);
  } catch (error) {
    if (!(error instanceof TableError)) throw error;
    return [refused(error.code, id, error.message, 'take that feature out of the table with what wrote it')];
  }
  const { configuration } = metadata;
  const unset = (name: string): string => `ALTER TABLE delta.\`${store.uri}\` UNSET TBLPROPERTIES ('${name}')`;
  const property = (name: string, why: string): AdoptFinding => refused('PROTOCOL_UNSUPPORTED', id, why, unset(name));
  const out: AdoptFinding[] = [];
  if (configuration['delta.appendOnly'] === 'true')
    out.push(property('delta.appendOnly', 'it is append-only, and updates and deletes take rows away'));
  const retention = 'delta.setTransactionRetentionDuration';
  if (configuration[retention] !== undefined)
    out.push(property(retention, `${retention} would let its position in the log be forgotten`));
  return out;
}

const OWN = new Set([COMMITTED_AT, '_sluice_epoch', '_sluice_lsn', '_sluice_ord']);

function columns({ id, snapshot, plan, allowMissing }: LakeTableLook): readonly AdoptFinding[] {
  const out: AdoptFinding[] = [];
  const missing = plan.fields.filter(({ lakeName }) => fieldOf(snapshot, lakeName) === undefined);
  const keys = missing.filter(({ isKey, lakeName }) => isKey || plan.keyColumns.includes(lakeName));
  const named = missing.map(({ lakeName }) => lakeName).join(', ');
  if (keys.length > 0 || (missing.length > 0 && !allowMissing))
    out.push(
      refused(
        'LAKE_COLUMNS_MISSING',
        id,
        `the lake's table lacks the columns ${named} of the source`,
        keys.length > 0
          ? `the key must be there: leave the table to \`sluice repair ${id}\`, which reads it again whole`
          : `let what wrote the table add them; or --allow-missing, then \`sluice backfill ${id} --columns ${missing.map(({ sourceName }) => sourceName).join(',')}\``,
      ),
    );
  else if (missing.length > 0)
    out.push(
      note(
        id,
        `the columns ${named} are added, NULL in the rows that stand there`,
        `sluice backfill ${id} --columns ${missing.map(({ sourceName }) => sourceName).join(',')}`,
      ),
    );
  const known = new Set(plan.fields.map(({ lakeName }) => lakeName.toLowerCase()));
  const extra = snapshot.schema.fields.filter(({ name }) => !known.has(name.toLowerCase()) && !OWN.has(name));
  const strict = extra.filter(({ nullable }) => !nullable);
  if (strict.length > 0)
    out.push(
      refused(
        'SCHEMA_CONFLICT',
        id,
        `the lake's columns ${strict.map(({ name }) => name).join(', ')} are NOT NULL, and the source does not have them`,
        `ALTER TABLE delta.\`${snapshot.store.uri}\` ALTER COLUMN ${strict[0]?.name ?? ''} DROP NOT NULL`,
      ),
    );
  else if (extra.length > 0)
    out.push(
      note(
        id,
        `the lake's columns ${extra.map(({ name }) => name).join(', ')} are not the source's: NULL in rows that change from here on`,
        '',
      ),
    );
  if (plan.privacy !== null)
    out.push(
      note(
        id,
        'its contract hides values, and those that stand there were written without it',
        `sluice repair ${id} reads them again`,
      ),
    );
  return out;
}
