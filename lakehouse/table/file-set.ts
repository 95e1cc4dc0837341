/**
 * The live files of one version, immutable. A new version shares the old one's map and adds a small overlay, so that
 * following a commit costs what the commit says, not what the table holds; the overlay is folded into a new map when it
 * has grown to a share of it.
 *
 * Identity is (path, deletion vector) (PROTOCOL.md, "Action Reconciliation"). Nearly always a path has one live entry;
 * a writer that forgot to remove the old vector leaves two, and they are both kept, as every other reader keeps them.
 */
import { vectorId } from './actions.ts';
import type { AddFile, RemoveFile } from './actions.ts';
import { canonicalPath } from './file-path.ts';

type Entry = AddFile | readonly AddFile[];

const OVERLAY_MIN = 1_024;
const OVERLAY_SHARE = 8;

export class FileSet implements Iterable<AddFile> {
  readonly #base: ReadonlyMap<string, Entry>;
  /** Null: the path is gone. */
  readonly #overlay: ReadonlyMap<string, Entry | null>;
  /** Live entries. */
  readonly count: number;
  /** Sum of their sizes in bytes. */
  readonly sizeBytes: bigint;

  constructor(
    base: ReadonlyMap<string, Entry> = new Map(),
    overlay: ReadonlyMap<string, Entry | null> = new Map(),
    totals: { readonly count: number; readonly sizeBytes: bigint } = { count: 0, sizeBytes: 0n },
  ) {
    this.#base = base;
    this.#overlay = overlay;
    this.count = totals.count;
    this.sizeBytes = totals.sizeBytes;
  }

  /** The live entry at `path` (any spelling of it), or null. With more than one (a broken writer) the last added. */
  get(path: string): AddFile | null {
    const entry = this.#entry(canonicalPath(path));
    if (entry === null) return null;
    return isMany(entry) ? (entry.at(-1) ?? null) : entry;
  }

  #entry(key: string): Entry | null {
    const over = this.#overlay.get(key);
    return over === undefined ? (this.#base.get(key) ?? null) : over;
  }

  *[Symbol.iterator](): IterableIterator<AddFile> {
    for (const [key, entry] of this.#base) {
      if (this.#overlay.has(key)) continue;
      if (isMany(entry)) yield* entry;
      else yield entry;
    }
    for (const entry of this.#overlay.values()) {
      if (entry === null) continue;
      if (isMany(entry)) yield* entry;
      else yield entry;
    }
  }

  /** A builder that starts from this set; this set does not change. */
  edit(): FileSetEdit {
    return new FileSetEdit(this.#base, this.#overlay, this.count, this.sizeBytes);
  }
}

export class FileSetEdit {
  #base: ReadonlyMap<string, Entry>;
  readonly #overlay: Map<string, Entry | null>;
  #count: number;
  #sizeBytes: bigint;

  constructor(
    base: ReadonlyMap<string, Entry>,
    overlay: ReadonlyMap<string, Entry | null>,
    count: number,
    sizeBytes: bigint,
  ) {
    this.#base = base;
    this.#overlay = new Map(overlay);
    this.#count = count;
    this.#sizeBytes = sizeBytes;
  }

  #entry(key: string): Entry | null {
    const over = this.#overlay.get(key);
    if (over !== undefined) return over;
    return this.#base.size === 0 ? null : (this.#base.get(key) ?? null);
  }

  add(file: AddFile): void {
    const key = canonicalPath(file.path);
    const old = this.#entry(key);
    const id = vectorId(file.deletionVector);
    if (old === null) {
      this.#overlay.set(key, file);
    } else {
      const others = (isMany(old) ? old : [old]).filter((other) => {
        const same = vectorId(other.deletionVector) === id;
        if (same) this.#forget(other);
        return !same;
      });
      this.#overlay.set(key, others.length === 0 ? file : [...others, file]);
    }
    this.#count++;
    this.#sizeBytes += file.size;
  }

  remove(file: RemoveFile): void {
    const key = canonicalPath(file.path);
    const old = this.#entry(key);
    if (old === null) return;
    const id = vectorId(file.deletionVector);
    const left = (isMany(old) ? old : [old]).filter((other) => {
      const same = vectorId(other.deletionVector) === id;
      if (same) this.#forget(other);
      return !same;
    });
    const [first] = left;
    if (first === undefined) {
      if (this.#base.has(key)) this.#overlay.set(key, null);
      else this.#overlay.delete(key);
    } else {
      this.#overlay.set(key, left.length === 1 ? first : left);
    }
  }

  #forget(file: AddFile): void {
    this.#count--;
    this.#sizeBytes -= file.size;
  }

  /** The set as edited. The edit must not be used after it. */
  done(): FileSet {
    const totals = { count: this.#count, sizeBytes: this.#sizeBytes };
    if (this.#overlay.size < Math.max(OVERLAY_MIN, this.#base.size / OVERLAY_SHARE)) {
      return new FileSet(this.#base, this.#overlay, totals);
    }
    // Over an empty base the overlay has no deletions, and this edit is over: the map itself will do.
    if (this.#base.size === 0) return new FileSet(this.#overlay as Map<string, Entry>, new Map(), totals);
    const merged = new Map(this.#base);
    for (const [key, entry] of this.#overlay) {
      if (entry === null) merged.delete(key);
      else merged.set(key, entry);
    }
    return new FileSet(merged, new Map(), totals);
  }
}

function isMany(entry: Entry): entry is readonly AddFile[] {
  return Array.isArray(entry);
}
