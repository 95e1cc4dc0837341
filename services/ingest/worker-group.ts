/**
 * This worker's place among the stream workers of a pipeline: which tables are its own. Membership only says who begins on
 * what; that no two commit the same batch is held by the table's own transactions.
 */
import type { Membership, JoinGroup } from '../log/membership.ts';
import { CUTS, decodeClaim, decodeShare, encodeClaim, encodeShare, shareOut } from './table-share.ts';

export interface WorkerGroupOptions {
  readonly pipeline: string;
  readonly join: JoinGroup;
  /** Whether other machines reach this worker's checkpoint. */
  readonly sharedCheckpoint: boolean;
  /** All tables of the pipeline that this worker knows of. */
  readonly known: () => readonly string[];
  /** These are this worker's from now on. */
  readonly begin: (tables: readonly string[]) => Promise<void>;
  /** Resolves when nothing of them is in hand any more. */
  readonly end: (tables: readonly string[]) => Promise<void>;
  /** How many share, and whether this one writes `consistent.json`. */
  readonly onShare: (workers: number, writesCuts: boolean) => void;
  /** Another has the tables, and this worker could not go on where it stops. */
  readonly onRefused: () => void;
  readonly onFailure: (error: unknown) => void;
}

export interface WorkerGroup {
  /** Tables were found: they have to be shared out. */
  tablesFound(): void;
  /** Some worker has it, or is about to. */
  isShared(table: string): boolean;
  workers(): number;
  writesCuts(): boolean;
  /** Every table that is known was shared out, and what this worker got or lost has begun and ended. */
  settled(): boolean;
  /** Resolves when this worker has begun on its first share. */
  readonly joined: Promise<void>;
  leave(): Promise<void>;
}

export const workersGroup = (pipeline: string): string => `sluice-${pipeline}-workers`;

export function joinWorkers(options: WorkerGroupOptions): WorkerGroup {
  const owned = new Set<string>();
  let shared: ReadonlySet<string> = new Set();
  let workers = 1;
  let writesCuts = false;
  let lost = true;
  let turns = 0;
  let turn: Promise<void> = Promise.resolve();
  let announce = (): void => undefined;
  const joined = new Promise<void>((resolve) => (announce = resolve));

  /** One change at a time: what began under one share has ended before the next takes it away. */
  function inTurn(work: () => Promise<void>): void {
    turns++;
    turn = turn
      .then(work)
      .catch(options.onFailure)
      .finally(() => turns--);
  }

  function follow(wanted: ReadonlySet<string>): void {
    inTurn(async () => {
      const given = [...owned].filter((table) => !wanted.has(table));
      const gained = [...wanted].filter((table) => !owned.has(table));
      for (const table of gained) owned.add(table);
      if (gained.length > 0) await options.begin(gained);
      announce();
      if (given.length === 0) return;
      await options.end(given);
      for (const table of given) owned.delete(table);
      membership.again();
    });
  }

  const membership: Membership = options.join({
    group: workersGroup(options.pipeline),
    describe: () =>
      encodeClaim({
        owned: [...owned, ...(writesCuts ? [CUTS] : [])],
        known: options.known(),
        local: !options.sharedCheckpoint,
      }),
    share(members) {
      const claims = new Map([...members].map(([id, bytes]) => [id, decodeClaim(bytes)]));
      return new Map([...shareOut(claims)].map(([id, share]) => [id, encodeShare(share)]));
    },
    onShare(bytes) {
      const share = decodeShare(bytes);
      if (share.refused) {
        options.onRefused();
        return;
      }
      const tables = new Set(share.tables);
      ({ workers } = share);
      writesCuts = tables.delete(CUTS);
      shared = new Set(share.known);
      lost = false;
      options.onShare(workers, writesCuts);
      follow(tables);
      tablesFound();
    },
    onLost() {
      writesCuts = false;
      lost = true;
      options.onShare(workers, false);
      inTurn(async () => {
        const ended = [...owned];
        owned.clear();
        await options.end(ended);
      });
    },
    onFailure: options.onFailure,
  });

  function tablesFound(): void {
    if (unknown()) membership.again();
  }

  function unknown(): boolean {
    return options.known().some((table) => !shared.has(table));
  }

  return {
    tablesFound,
    isShared: (table) => shared.has(table),
    workers: () => workers,
    writesCuts: () => writesCuts,
    settled: () => !lost && turns === 0 && !unknown(),
    joined,
    async leave() {
      await membership.leave();
      await turn;
    },
  };
}
