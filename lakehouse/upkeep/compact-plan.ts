/** Which files to rewrite together. Pure. */
import type { AddFile } from '../table/actions.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { recordCount } from '../merge/file-stats.ts';

export interface CompactPlanRules {
  /** Size of the files to be made, bytes as stored. */
  readonly targetBytes: number;
  /** Files of one partition and size class from which on it pays to join them. */
  readonly filesMin: number;
  /** A file with more than this share of deleted rows is rewritten even alone; 0: any with a vector; 1: none. */
  readonly deletedShareMax: number;
  /** Rewrite every file (a new order is wanted). */
  readonly all: boolean;
  /** Leave files be that a compaction filled up to its own limit, however small they came out. */
  readonly keepFull?: boolean;
}

/** In `add.tags` of a file that was written up to the writer's limit. */
export const FULL_FILE_TAG = 'sluice.full';
const isFull = (file: AddFile): boolean => file.tags?.[FULL_FILE_TAG] === 'true';
/** Rows remember their file in 16 bits, and a bin's files are read in one go. */
const BIN_FILES_MAX = 16_384;

/** Files that become one bin's output; of one partition. */
export interface Bin {
  readonly files: readonly AddFile[];
  readonly bytes: number;
}

export function planBins(snapshot: Snapshot, rules: CompactPlanRules): readonly Bin[] {
  const partitions = new Map<string, AddFile[]>();
  for (const file of snapshot.files) {
    const id = JSON.stringify(Object.entries(file.partitionValues).sort(([a], [b]) => (a < b ? -1 : 1)));
    const files = partitions.get(id);
    if (files === undefined) partitions.set(id, [file]);
    else files.push(file);
  }
  return [...partitions.values()].flatMap((files) => planPartition(files, rules));
}

function planPartition(files: readonly AddFile[], rules: CompactPlanRules): readonly Bin[] {
  if (rules.all) return pack(files, rules.targetBytes);
  const purged = files.filter((file) => deletedShare(file) > rules.deletedShareMax);
  const worn = new Set(purged);
  const small = files.filter(
    (file) =>
      !worn.has(file) && Number(file.size) < rules.targetBytes * 0.75 && !(rules.keepFull === true && isFull(file)),
  );
  // Joined class by class, so that a row is rewritten once a class and not with every small file that comes.
  const classes = new Map<number, AddFile[]>();
  for (const file of small) {
    const size = Math.floor(Math.log2(Math.max(1, Number(file.size))) / 3);
    const members = classes.get(size);
    if (members === undefined) classes.set(size, [file]);
    else members.push(file);
  }
  const joined: AddFile[] = [];
  let carried: AddFile[] = [];
  for (const size of [...classes.keys()].sort((a, b) => a - b)) {
    carried = [...carried, ...(classes.get(size) ?? [])];
    if (carried.length < rules.filesMin) continue;
    joined.push(...carried);
    carried = [];
  }
  return pack([...purged, ...joined], rules.targetBytes).filter(
    (bin) => bin.files.length > 1 || bin.files.some((file) => worn.has(file)),
  );
}

function pack(files: readonly AddFile[], targetBytes: number): Bin[] {
  const bins: Bin[] = [];
  let open: AddFile[] = [];
  let bytes = 0;
  const close = (): void => {
    if (open.length > 0) bins.push({ files: open, bytes });
    open = [];
    bytes = 0;
  };
  for (const file of files) {
    const living = Number(file.size) * (1 - deletedShare(file));
    if (open.length > 0 && (bytes + living > targetBytes || open.length === BIN_FILES_MAX)) close();
    open.push(file);
    bytes += living;
  }
  close();
  return bins;
}

/** Share of a file's rows that its vector hides. */
export function deletedShare(file: AddFile): number {
  if (file.deletionVector === null) return 0;
  const rows = recordCount(file);
  return rows === null || rows === 0 ? 1 : Number(file.deletionVector.cardinality) / rows;
}

export interface AutoCompactRules {
  /** Small files from which on a compaction pays. */
  readonly smallFilesMax: number;
  readonly smallBytes: number;
  /** Living share of a file below which it is rewritten. */
  readonly livingShareMin: number;
  /** Share of deleted rows in the whole table above which the worst files are rewritten. */
  readonly tableDeletedShareMax: number;
}

export const AUTO_COMPACT_RULES: AutoCompactRules = {
  smallFilesMax: 32,
  smallBytes: 32 * 1024 * 1024,
  livingShareMin: 0.7,
  // Each updated row costs 1 / share rewritten rows: at 0.1 a busy table is rewritten ten rows for one.
  tableDeletedShareMax: 0.25,
};

/** Rules for a compaction that the table's state calls for, or null. */
export function autoCompaction(snapshot: Snapshot, rules: AutoCompactRules): CompactPlanRules | null {
  let small = 0;
  let rows = 0;
  let deleted = 0;
  let worn = 0;
  for (const file of snapshot.files) {
    if (Number(file.size) < rules.smallBytes && !isFull(file)) small++;
    const share = deletedShare(file);
    if (share > 1 - rules.livingShareMin) worn++;
    const count = recordCount(file) ?? 0;
    rows += count;
    deleted += count * share;
  }
  const tableWorn = rows > 0 && deleted / rows > rules.tableDeletedShareMax;
  if (small <= rules.smallFilesMax && worn === 0 && !tableWorn) return null;
  return {
    targetBytes: 128 * 1024 * 1024,
    filesMin: Math.max(4, Math.floor(rules.smallFilesMax / 2)),
    deletedShareMax: tableWorn ? rules.tableDeletedShareMax : 1 - rules.livingShareMin,
    all: false,
    keepFull: true,
  };
}
