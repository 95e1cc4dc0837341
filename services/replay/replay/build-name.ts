/** Names that a replay may build a table under: those that PostgreSQL could give one, and that meet nothing else in the lake. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';

interface Named {
  readonly schema: string;
  readonly table: string;
}

/** As PostgreSQL has it. File names are made of these. */
const OCTETS_MAX = 63;
const QUARANTINE = '__quarantine';
// eslint-disable-next-line no-control-regex -- the control characters are what is looked for
const CONTROL = /[\x00-\x1f\x7f]/;

/** @throws ConfigError */
export function assertBuildName({ schema, table }: Named): void {
  const why = schema === '_sluice' ? 'that folder is the pipeline’s own' : (unfit(schema) ?? unfit(table));
  if (why !== null)
    throw new ConfigError(
      `--into cannot be ${JSON.stringify(`${schema}.${table}`)}: ${why}`,
      'give a name such as public.orders_new',
    );
}

function unfit(name: string): string | null {
  if (/^\.{1,2}$/.test(name)) return 'a folder cannot have that name';
  if (CONTROL.test(name)) return 'it has a control character';
  if (Buffer.byteLength(name) > OCTETS_MAX) return `a name has ${OCTETS_MAX} octets at most`;
  return name.endsWith(QUARANTINE) ? `names that end in ${QUARANTINE} are of parked rows` : null;
}

/** @throws SluiceError REPLAY_TARGET_TAKEN where a table of the pipeline, or anything at all, stands there */
export async function assertNameFree(lake: ObjectStore, into: Named, kept: readonly Named[]): Promise<void> {
  const folder = tableFolder(into.schema, into.table);
  // Some file systems take two names that differ in case only for one.
  const folded = folder.toLowerCase();
  const clash = kept.find(({ schema, table }) => tableFolder(schema, table).toLowerCase() === folded);
  if (clash !== undefined) throw targetTaken(into, `the pipeline itself keeps ${clash.schema}.${clash.table} there`);
  // Also what is no table: `--discard` removes all that lies below.
  for (const own of [folder, `${folder}${QUARANTINE}`])
    for await (const _ of subStore(lake, own).list(''))
      throw targetTaken(into, 'another table stands there, or other files, which no replay began');
}

/** By a build, which can be given up; what no replay began, `--discard` does not remove. */
export function targetBuilt(into: Named, how: string): SluiceError {
  const discard = `sluice replay --discard --into ${into.schema}.${into.table}`;
  return targetTaken(into, `a replay builds it ${how}`, `, or give that one up with \`${discard}\``);
}

function targetTaken({ schema, table }: Named, why: string, otherwise = ''): SluiceError {
  return new SluiceError('REPLAY_TARGET_TAKEN', `${schema}.${table} cannot be built: ${why}`, {
    exit: ExitCode.usage,
    remedy: `choose another name for --into${otherwise}`,
  });
}
