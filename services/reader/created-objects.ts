/** What a start has made at the source. A failed start leaves nothing behind: a slot would hold back WAL for ever. */
import type { ReaderOptions } from './reader-options.ts';
import { dropPublicationSql } from './publication.ts';
import { dropSlot } from './slot.ts';
import type { SourceSession } from './source.ts';

export interface CreatedObjects {
  slot: boolean;
  publication: boolean;
}

/** Takes back what this start made. What cannot be dropped (the server is gone, perhaps) is told, and teardown drops it. */
export async function takeBack(session: SourceSession, options: ReaderOptions, created: CreatedObjects): Promise<void> {
  const { slot, publication, logger } = options;
  const failed = (error: unknown): void =>
    logger.warn({ err: error, slot, publication }, 'what a failed start made at the source could not be dropped');
  if (created.slot)
    await dropSlot(session, slot).then((gone) => (gone ? undefined : failed(new Error('the slot is in use'))), failed);
  created.slot = false;
  if (created.publication) await session.query(dropPublicationSql(publication)).catch(failed);
  created.publication = false;
}
