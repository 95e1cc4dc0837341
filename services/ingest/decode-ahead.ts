/**
 * A batch decoded while the one before it is written: the main thread has nothing else to do then, and a table has one batch
 * at a time in the sink. It counts only where the batch before left nothing behind that a decoder asks for (parked keys,
 * events that wait for their row) and the contract in use is the same; otherwise the batch is decoded as ever.
 */
import type { Begun } from '../stream/stream.ts';
import { decodePlan, type DecodedPlan, type DecodePlanOptions } from './batch-builder.ts';
import type { Awaiting } from './awaiting.ts';
import type { ParkedKeys } from './parked-keys.ts';
import type { TablePlan } from './table-plan.ts';

/** What lives between batches. */
export interface BetweenBatches {
  readonly parkedKeys: ParkedKeys;
  readonly awaiting: Awaiting;
}

export interface DecodedAhead extends DecodedPlan, Begun {
  readonly tablePlan: TablePlan;
  /** As they stand after it. */
  readonly left: BetweenBatches;
}

export const leavesNothing = ({ parkedKeys, awaiting }: BetweenBatches): boolean =>
  parkedKeys.size === 0 && awaiting.events === 0;

/** A new shape may change the contract, and that is the batch's own business. */
class ShapeChanged extends Error {}

/** @param release gives the batch's memory back to the budget */
export async function decodeAhead(
  options: Omit<DecodePlanOptions, 'evolve'>,
  release: () => void,
): Promise<DecodedAhead | null> {
  const { tablePlan, parkedKeys, awaiting } = options;
  try {
    const evolve = (): TablePlan => {
      throw new ShapeChanged();
    };
    const decoded = await decodePlan({ ...options, evolve });
    return { ...decoded, tablePlan, left: { parkedKeys, awaiting }, release };
  } catch {
    // The batch itself meets what it was, and names it.
    release();
    return null;
  }
}

/** Whether the batch that is due now would be decoded to the same. */
export function stillHolds(ahead: DecodedAhead, now: BetweenBatches, tablePlan: TablePlan): boolean {
  return ahead.tablePlan === tablePlan && leavesNothing(now);
}
