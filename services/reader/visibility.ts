/**
 * Which transactions a snapshot sees. Source: PostgreSQL docs, "pg_snapshot Components": `xmin:xmax:xip_list`, 64-bit ids;
 * below xmin all have ended, at or above xmax none, between them those in the list had not. Sub-transactions are not listed,
 * and BEGIN of pgoutput names the top one, so the two fit. Pure.
 *
 * A commit record is in the WAL before the commit is visible (with a synchronous standby: long before), so a transaction that
 * the stream has delivered may still be invisible to a SELECT that starts later (case 48).
 */
export interface VisibleSet {
  readonly xmin: bigint;
  readonly xmax: bigint;
  readonly running: ReadonlySet<bigint>;
}

export function parseSnapshot(text: string): VisibleSet {
  const [xmin = '', xmax = '', list = ''] = text.split(':');
  if (!/^\d+$/.test(xmin) || !/^\d+$/.test(xmax)) throw new RangeError(`not a pg_snapshot: '${text}'`);
  return {
    xmin: BigInt(xmin),
    xmax: BigInt(xmax),
    running: new Set(list === '' ? [] : list.split(',').map(BigInt)),
  };
}

/** The 64-bit id of a 32-bit one from the WAL: the nearest to the snapshot's xmax, as PostgreSQL itself widens them. */
export function widenXid(xid: number, near: bigint): bigint {
  const low = Number(BigInt.asUintN(32, near));
  return near + BigInt((xid - low) | 0);
}

/** `xid` (32-bit, as BEGIN has it) of a transaction that has committed: whether its effects are in the snapshot. */
export function isVisible(xid: number, snapshot: VisibleSet): boolean {
  const full = widenXid(xid, snapshot.xmax);
  if (full < snapshot.xmin) return true;
  return full < snapshot.xmax && !snapshot.running.has(full);
}

/**
 * Transactions that were appended to the log and not yet seen visible. Saved with every mark, so that a reader that starts
 * again knows them.
 */
export interface UnseenTransactions {
  add(xid: number): void;
  /** Forgets those that `snapshot` sees: once visible, always visible. */
  prune(snapshot: VisibleSet): void;
  readonly xids: ReadonlySet<number>;
}

export function createUnseenTransactions(saved: Iterable<number> = []): UnseenTransactions {
  const xids = new Set(saved);
  return {
    xids,
    add(xid) {
      xids.add(xid);
    },
    prune(snapshot) {
      for (const xid of xids) if (isVisible(xid, snapshot)) xids.delete(xid);
    },
  };
}
