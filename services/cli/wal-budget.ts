/**
 * `source.walBudget`: the WAL that the slot may hold back. Above it the service says so every minute and is not ready; with
 * `onExceed: drop-slot` it gives the slot up before the source's disk fills: the next start is SLOT_LOST, and
 * `sluice repair --all` reads the tables again.
 */
import { dropSlot } from '../reader/slot.ts';
import type { Config } from '../runtime/config.ts';
import { formatSize } from '../runtime/duration.ts';
import type { Logger } from '../runtime/logger.ts';
import type { Pipeline } from './pipeline.ts';

export interface WalBudget {
  /** Looks at the slot; returns at once. */
  check(): void;
  /** Why the service is not ready, or null. */
  exceeded(): string | null;
}

const REPEAT_MS = 60_000;

export function createWalBudget(
  pipeline: Pick<Pipeline, 'reader' | 'source'>,
  config: Config,
  logger: Logger,
  now: () => number,
): WalBudget {
  const { walBudget, onExceed, slot } = config.source;
  let reason: string | null = null;
  let toldMs = Number.NEGATIVE_INFINITY;
  let dropping = false;

  async function giveUp(held: bigint): Promise<void> {
    const { reader, source } = pipeline;
    if (reader === null || source === null) return;
    await reader.stop();
    const session = await source.session('wal budget');
    try {
      await dropSlot(session, slot);
    } finally {
      await session.close();
    }
    logger.error(
      { slot, heldBytes: held.toString(), state: 'SLOT_LOST' },
      'the slot held back more WAL than source.walBudget allows and was dropped; `sluice repair --all` reads the tables again',
    );
  }

  return {
    check() {
      const held = pipeline.reader?.status().insurance?.heldBytes ?? 0n;
      if (walBudget === null || dropping) return;
      reason =
        held <= BigInt(walBudget)
          ? null
          : `slot ${slot} holds back ${formatSize(Number(held))} of WAL, more than source.walBudget ${formatSize(walBudget)}`;
      if (reason === null) return;
      if (now() - toldMs >= REPEAT_MS) {
        toldMs = now();
        logger.warn({ slot, heldBytes: held.toString(), walBudget }, reason);
      }
      if (onExceed !== 'drop-slot') return;
      dropping = true;
      giveUp(held).catch((error: unknown) => {
        dropping = false;
        logger.warn({ err: error, slot }, 'the slot could not be dropped; trying again');
      });
    },
    exceeded: () => reason,
  };
}
