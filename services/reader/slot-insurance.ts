/**
 * How much WAL the slot holds back, how fast that grows, and when it gets dangerous. Pure; two samples make a rate.
 * Source: PostgreSQL docs, pg_replication_slots (safe_wal_size), max_slot_wal_keep_size.
 */
export interface SlotSample {
  readonly atMs: number;
  /** End of the WAL. */
  readonly walLsn: bigint;
  readonly restartLsn: bigint;
  /** Bytes that may still be written before max_slot_wal_keep_size is passed; null without such a limit. */
  readonly safeWalBytes: bigint | null;
  readonly walStatus: string;
  /** Oldest running transaction of the server, seconds; it keeps restart_lsn where it is. */
  readonly oldestTransaction: { readonly pid: number; readonly seconds: number; readonly application: string } | null;
}

export interface SlotInsurance {
  readonly heldBytes: bigint;
  /** WAL written, bytes a second; 0 until two samples are there. */
  readonly walBytesPerSecond: number;
  /** Growth of what is held, bytes a second; negative while the slot catches up. */
  readonly growthBytesPerSecond: number;
  /** Until max_slot_wal_keep_size at this rate; null = no limit, or not growing. */
  readonly secondsToLimit: number | null;
  readonly walStatus: string;
  readonly oldestTransaction: SlotSample['oldestTransaction'];
  readonly level: 'ok' | 'warn' | 'critical';
}

const WARN_SECONDS = 3_600;
const CRITICAL_SECONDS = 600;

export function slotInsurance(before: SlotSample | null, now: SlotSample): SlotInsurance {
  const held = now.walLsn > now.restartLsn ? now.walLsn - now.restartLsn : 0n;
  const seconds = before === null ? 0 : (now.atMs - before.atMs) / 1000;
  const rate = (from: bigint, to: bigint): number => (seconds > 0 ? Number(to - from) / seconds : 0);
  const heldBefore = before === null ? held : before.walLsn - before.restartLsn;
  const walRate = before === null ? 0 : Math.max(0, rate(before.walLsn, now.walLsn));
  const growth = rate(heldBefore, held);
  const secondsToLimit =
    now.safeWalBytes === null || growth <= 0 ? null : Math.max(0, Number(now.safeWalBytes)) / growth;
  return {
    heldBytes: held,
    walBytesPerSecond: walRate,
    growthBytesPerSecond: growth,
    secondsToLimit,
    walStatus: now.walStatus,
    oldestTransaction: now.oldestTransaction,
    level: levelOf(now, secondsToLimit),
  };
}

function levelOf(now: SlotSample, secondsToLimit: number | null): SlotInsurance['level'] {
  if (now.walStatus === 'lost' || now.walStatus === 'unreserved') return 'critical';
  if (secondsToLimit !== null && secondsToLimit < CRITICAL_SECONDS) return 'critical';
  return secondsToLimit !== null && secondsToLimit < WARN_SECONDS ? 'warn' : 'ok';
}

/** One line for a person. Full disk: of the server's disk a client sees nothing, only the server's own limit. */
export function describeInsurance(insurance: SlotInsurance): string {
  const { heldBytes, growthBytesPerSecond: growth, secondsToLimit, walStatus, oldestTransaction } = insurance;
  const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(1)} MB`;
  const parts = [`holds back ${megabytes(Number(heldBytes))} of WAL (${walStatus})`];
  if (growth > 0) parts.push(`grows by ${megabytes(growth)}/s`);
  if (secondsToLimit !== null)
    parts.push(`reaches max_slot_wal_keep_size in ${Math.round(secondsToLimit / 60)} min at this rate`);
  if (oldestTransaction !== null && oldestTransaction.seconds >= OLD_SECONDS)
    parts.push(
      `oldest transaction: pid ${oldestTransaction.pid} (${oldestTransaction.application || 'no name'}), ${oldestTransaction.seconds} s`,
    );
  return parts.join(', ');
}

/** A transaction of this age is named: it keeps the slot's WAL. */
const OLD_SECONDS = 60;
