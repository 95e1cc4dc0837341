/**
 * PORT of membership: processes that share a log form a group, one of them says who gets what. The group knows nothing of what
 * is shared out: it carries bytes. Whoever is told to be out of it may still be in the middle of something: what is shared
 * must be fenced by other means.
 */
export interface GroupOptions {
  readonly group: string;
  /** What this member tells the one that shares out; asked at each join. */
  readonly describe: () => Buffer;
  /** Shares out, at one member of the group: bytes for each member by its id. */
  readonly share: (members: ReadonlyMap<string, Buffer>) => ReadonlyMap<string, Buffer>;
  /** What this member got. */
  readonly onShare: (share: Buffer) => void;
  /** The group went on without us: all that we had may be another's by now. */
  readonly onLost: () => void;
  readonly onFailure: (error: unknown) => void;
}

export interface Membership {
  /** What `describe` gives has changed: the group shares out anew. */
  again(): void;
  /** Goes, so that the others need not wait for a time-out. */
  leave(): Promise<void>;
}

export type JoinGroup = (options: GroupOptions) => Membership;
