/**
 * DESIGN invariant 2: an LSN is confirmed to PostgreSQL only when every event up to it is durable in the log. Pure.
 *
 * Three positions rise side by side: what a durable mark allows, what the lake has committed (embedded log only: there the
 * log itself may be lost with the machine), and what was confirmed. A keepalive's position is no position of its own: it
 * becomes one by an idle mark, and only while nothing is buffered and no transaction is open (cases 4 and 5).
 */
export interface Acker {
  /** A mark with this `confirmLsn` is durable in the log. */
  durable(confirmLsn: bigint): void;
  /** The lake has committed everything below. Only asked for with an embedded log. */
  committed(lsn: bigint): void;
  /** What may be confirmed now, if it is more than was confirmed; marks it as confirmed. */
  take(): bigint | null;
  readonly confirmed: bigint;
}

export function createAcker(options: { readonly confirmed: bigint; readonly heldByLake: boolean }): Acker {
  let { confirmed } = options;
  let durable = confirmed;
  let committed = options.heldByLake ? confirmed : null;
  return {
    durable(confirmLsn) {
      if (confirmLsn > durable) durable = confirmLsn;
    },
    committed(lsn) {
      if (committed !== null && lsn > committed) committed = lsn;
    },
    take() {
      const allowed = committed !== null && committed < durable ? committed : durable;
      if (allowed <= confirmed) return null;
      confirmed = allowed;
      return allowed;
    },
    get confirmed() {
      return confirmed;
    },
  };
}

/** Whether a keepalive's position may go into an idle mark. */
export function keepaliveCounts(state: {
  readonly transactionOpen: boolean;
  readonly bufferedRecords: number;
  readonly bufferedBytes: number;
}): boolean {
  return !state.transactionOpen && state.bufferedRecords === 0 && state.bufferedBytes === 0;
}
