/**
 * Who gets which table: as even as numbers allow, and moving as little as that needs. A table that has to move is nobody's
 * until its owner has let go of it and says so by joining again: so its new owner begins where the old one ended. Pure.
 */
import { StreamError } from '../stream/stream-error.ts';

export const SHARE_FORMAT = 1;
/** Stands among the tables for the writing of `consistent.json`. */
export const CUTS = '\0cuts';

/** What a worker tells the one that shares out. */
export interface WorkerClaim {
  /** Tables that it has in hand now, and CUTS. */
  readonly owned: readonly string[];
  /** All tables of the pipeline that it knows of. */
  readonly known: readonly string[];
  /** Its checkpoint is its machine's own: it can share with nobody. */
  readonly local: boolean;
}

export interface WorkerShare {
  readonly workers: number;
  readonly tables: readonly string[];
  /** All tables that were shared out, this one's and others'. */
  readonly known: readonly string[];
  /** It gets nothing, because the checkpoints are not shared. */
  readonly refused: boolean;
}

export function shareOut(claims: ReadonlyMap<string, WorkerClaim>): Map<string, WorkerShare> {
  if (claims.size > 1 && [...claims.values()].some(({ local }) => local)) return oneAlone(claims);
  const ids = [...claims.keys()].toSorted();
  const known = [...new Set(ids.flatMap((id) => [...(claims.get(id)?.known ?? [])]))].toSorted();
  const claimedBy = new Map<string, string>();
  for (const id of ids)
    for (const table of claims.get(id)?.owned ?? []) if (!claimedBy.has(table)) claimedBy.set(table, id);
  const held = new Map(ids.map((id) => [id, known.filter((table) => claimedBy.get(table) === id)]));
  const quota = quotas(ids, known.length, held);
  const shares = new Map(ids.map((id) => [id, (held.get(id) ?? []).slice(0, quota.get(id))]));
  for (const table of known) {
    if (claimedBy.has(table)) continue;
    const next = leastLoaded(ids, shares, quota);
    if (next !== null) shares.get(next)?.push(table);
  }
  const cuts = claimedBy.get(CUTS) ?? ids.toSorted((a, b) => sizeOf(shares, a) - sizeOf(shares, b))[0];
  if (cuts !== undefined) shares.get(cuts)?.push(CUTS);
  return new Map(ids.map((id) => [id, { workers: ids.length, tables: shares.get(id) ?? [], known, refused: false }]));
}

/** Whoever has most already keeps all. */
function oneAlone(claims: ReadonlyMap<string, WorkerClaim>): Map<string, WorkerShare> {
  const ids = [...claims.keys()].toSorted();
  const first =
    ids.toSorted((a, b) => (claims.get(b)?.owned.length ?? 0) - (claims.get(a)?.owned.length ?? 0))[0] ?? '';
  const alone = shareOut(new Map([[first, { ...(claims.get(first) ?? NOTHING), local: false }]]));
  const nothing: WorkerShare = { workers: 1, tables: [], known: [], refused: true };
  return new Map(ids.map((id) => [id, alone.get(id) ?? nothing]));
}

const NOTHING: WorkerClaim = { owned: [], known: [], local: true };

const sizeOf = (shares: ReadonlyMap<string, readonly string[]>, id: string): number => shares.get(id)?.length ?? 0;

/** The rest of the division goes to those that hold most already: fewer tables move. */
function quotas(
  ids: readonly string[],
  tables: number,
  held: ReadonlyMap<string, readonly string[]>,
): Map<string, number> {
  const base = Math.floor(tables / ids.length);
  const rest = tables - base * ids.length;
  const byHeld = ids.toSorted((a, b) => sizeOf(held, b) - sizeOf(held, a));
  return new Map(byHeld.map((id, rank) => [id, base + (rank < rest ? 1 : 0)]));
}

function leastLoaded(
  ids: readonly string[],
  shares: ReadonlyMap<string, readonly string[]>,
  quota: ReadonlyMap<string, number>,
): string | null {
  let best: string | null = null;
  for (const id of ids) {
    if (sizeOf(shares, id) >= (quota.get(id) ?? 0)) continue;
    if (best === null || sizeOf(shares, id) < sizeOf(shares, best)) best = id;
  }
  return best;
}

export function encodeClaim(claim: WorkerClaim): Buffer {
  return Buffer.from(JSON.stringify({ formatVersion: SHARE_FORMAT, ...claim }));
}

export function encodeShare(share: WorkerShare): Buffer {
  return Buffer.from(JSON.stringify({ formatVersion: SHARE_FORMAT, ...share }));
}

/** @throws StreamError FORMAT_NEWER */
export function decodeClaim(bytes: Buffer): WorkerClaim {
  const body = decode(bytes);
  return { owned: texts(body['owned']), known: texts(body['known']), local: body['local'] === true };
}

/** @throws StreamError FORMAT_NEWER */
export function decodeShare(bytes: Buffer): WorkerShare {
  const body = decode(bytes);
  return {
    workers: Number(body['workers'] ?? 1),
    tables: texts(body['tables']),
    known: texts(body['known']),
    refused: body['refused'] === true,
  };
}

function decode(bytes: Buffer): Record<string, unknown> {
  const body = (bytes.length === 0 ? {} : JSON.parse(bytes.toString('utf8'))) as Record<string, unknown>;
  if (Number(body['formatVersion'] ?? SHARE_FORMAT) > SHARE_FORMAT)
    throw new StreamError(
      'FORMAT_NEWER',
      `another stream worker shares out tables in format ${String(body['formatVersion'])}`,
      'run the same version in all workers',
    );
  return body;
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === 'string') : [];
}
