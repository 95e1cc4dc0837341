/**
 * `source.walBudget`: the WAL that the slot may hold back. Above it the service says so every minute and is not ready; with
 * `onExceed: drop-slot` it gives the slot up before the source's disk fills: the next start is SLOT_LOST, and
 * `sluice repair --all` reads the tables again.
 */
import { ReaderError } from '../reader/reader-error.ts';
import { describeInsurance, type SlotInsurance } from '../reader/slot-insurance.ts';
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
  /** The named state after the slot was given up, or null. */
  gaveUp(): { readonly state: string; readonly detail: string; readonly remedy: string } | null;
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
  let gone: ReturnType<WalBudget['gaveUp']> = null;
  let level: SlotInsurance['level'] = 'ok';

  /** WAL that grows towards the server's own limit is told when it gets dangerous, and when that is over. */
  function watchLevel(insurance: SlotInsurance): void {
    if (insurance.level === level) return;
    level = insurance.level;
    const figures = {
      slot,
      heldBytes: insurance.heldBytes.toString(),
      growthBytesPerSecond: Math.round(insurance.growthBytesPerSecond),
      secondsToLimit: insurance.secondsToLimit,
      walStatus: insurance.walStatus,
      oldestTransaction: insurance.oldestTransaction,
    };
    const told = `slot ${slot}: ${describeInsurance(insurance)}`;
    if (level === 'critical') logger.error(figures, told);
    else if (level === 'warn') logger.warn(figures, told);
    else logger.info(figures, told);
  }

  async function giveUp(held: bigint): Promise<void> {
    const { reader, source } = pipeline;
    if (reader === null || source === null) return;
    const why = {
      state: 'SLOT_LOST',
      detail: `slot ${slot} held back ${formatSize(Number(held))} of WAL, more than source.walBudget allows, and was dropped`,
      remedy: 'run `sluice repair --all`',
    };
    const drop = async (): Promise<void> => {
      const session = await source.session('wal budget');
      try {
        if (!(await dropSlot(session, slot))) throw new ReaderError('SLOT_IN_USE', `slot ${slot} is still in use`);
      } finally {
        await session.close();
      }
    };
    if (reader.standStill === undefined) {
      await reader.stop();
      await drop();
    } else await reader.standStill(why, drop);
    gone = why;
    logger.error(
      { slot, heldBytes: held.toString(), state: 'SLOT_LOST' },
      'the slot held back more WAL than source.walBudget allows and was dropped; `sluice repair --all` reads the tables again',
    );
  }

  return {
    check() {
      const status = pipeline.reader?.status();
      const insurance = status?.insurance ?? null;
      // Mended: a new slot, and a new budget for it.
      if (gone !== null && status?.phase === 'streaming') {
        gone = null;
        dropping = false;
      }
      if (insurance !== null) watchLevel(insurance);
      const held = insurance?.heldBytes ?? 0n;
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
    gaveUp: () => gone,
  };
}
