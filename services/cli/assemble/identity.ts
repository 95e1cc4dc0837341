/**
 * `_sluice/pipeline.json`: which pipeline keeps this lake. A lake follows one database through one slot; a changed name or
 * database would orphan the slot (it holds WAL for ever) and mix two histories in one table, so it is refused by name.
 */
import { getText } from '../../../lakehouse/store/get-text.ts';
import { DEFAULT_BACKOFF, withRetry, type Backoff } from '../../../lakehouse/store/retry.ts';
import { isRetriable, StoreError, type ObjectStore, type PutIfAbsentResult } from '../../../lakehouse/store/store.ts';
import { findPublication } from '../../reader/publication.ts';
import type { SourceSession } from '../../reader/source.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { readLakeDocument } from '../../runtime/lake-document.ts';

export const IDENTITY_KEY = '_sluice/pipeline.json';
const FORMAT = 1;

export interface PipelineIdentity {
  readonly formatVersion: number;
  readonly name: string;
  /** Of the server, as pg_control_system() says; decimal text. */
  readonly systemIdentifier: string;
  readonly database: string;
  readonly slot: string;
  readonly epoch: number;
  readonly publication: string;
  /** The publication did not exist when this pipeline first started: teardown may drop it. */
  readonly madePublication: boolean;
  /** `sluice adopt` took the slot over: teardown leaves it, as something else may go on with it. */
  readonly adoptedSlot?: boolean;
}

export async function identityOf(
  session: SourceSession,
  { name, slot, publication }: { readonly name: string; readonly slot: string; readonly publication: string },
): Promise<PipelineIdentity> {
  const [row] = await session.query(
    `select system_identifier::text as system, current_database() as database from pg_control_system()`,
  );
  return {
    formatVersion: FORMAT,
    name,
    systemIdentifier: row?.['system'] ?? '',
    database: row?.['database'] ?? '',
    slot,
    epoch: 1,
    publication,
    madePublication: (await findPublication(session, publication)) === null,
  };
}

export function readIdentity(lake: ObjectStore): Promise<PipelineIdentity | null> {
  return readLakeDocument<PipelineIdentity>(lake, IDENTITY_KEY, FORMAT);
}

/**
 * Records the identity on first use, and holds every later start to it. True when it was recorded now. A changed system
 * identifier is the reader's to judge.
 */
export async function claimLake(
  lake: ObjectStore,
  mine: PipelineIdentity,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<boolean> {
  const standing = await readIdentity(lake);
  if (standing === null) {
    const body = Buffer.from(`${JSON.stringify(mine, null, 2)}\n`);
    const puts = { unanswered: 0 };
    const put = (): Promise<PutIfAbsentResult> => lake.putIfAbsent(IDENTITY_KEY, body);
    const again = (error: unknown): boolean => {
      const unanswered = error instanceof StoreError && error.code === 'STORE_OUTCOME_UNKNOWN';
      if (unanswered) puts.unanswered++;
      return unanswered || isRetriable(error);
    };
    if ((await withRetry(put, again, backoff)) === 'created') return true;
    // Of a put whose answer was lost it may be the very one that stands there.
    if (puts.unanswered > 0 && (await getText(lake, IDENTITY_KEY)) === body.toString()) return true;
    return claimLake(lake, mine, backoff);
  }
  const differing = (['name', 'database', 'slot'] as const).filter((key) => standing[key] !== mine[key]);
  if (differing.length === 0) return false;
  const shown = differing.map((key) => `${key} '${standing[key]}' -> '${mine[key]}'`).join(', ');
  throw new SluiceError('PIPELINE_CHANGED', `this lake is kept by pipeline '${standing.name}': ${shown}`, {
    exit: ExitCode.usage,
    remedy: `slot '${standing.slot}' of database '${standing.database}' would be orphaned; use another lake.uri, or \`sluice teardown\` the old pipeline first`,
  });
}
