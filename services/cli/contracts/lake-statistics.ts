/**
 * What a table's log says exactly, without reading a data file: rows (less what deletion vectors hide), NULLs and extremes of
 * columns where every file has statistics, tight ones, and no vector. What is not exact is left out.
 */
import type { TableStatistics, TimeRange } from '../../../contracts/engine/rules/table-probe.ts';
import { dateOf, microsOf } from '../../../lakehouse/read/partition-column.ts';
import { mappingMode, physicalName } from '../../../lakehouse/table/column-mapping.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { parseStats } from '../../../lakehouse/table/stats-read.ts';
import type { FileStats } from '../../../lakehouse/table/stats-read.ts';

const MICROS_PER_DAY = 86_400_000_000n;

export function lakeStatistics(snapshot: Snapshot): TableStatistics {
  let rows: bigint | null = 0n;
  let tight = true;
  const files: FileStats[] = [];
  for (const file of snapshot.files) {
    const stats = parseStats(file.stats);
    if (stats === null || stats.rowCount === null) return { rowCount: null, nullCounts: new Map(), ranges: new Map() };
    rows += stats.rowCount - BigInt(file.deletionVector?.cardinality ?? 0);
    if (file.deletionVector !== null || !stats.tightBounds) tight = false;
    files.push(stats);
  }
  const nullCounts = new Map<string, bigint>();
  const ranges = new Map<string, TimeRange>();
  const partitions = new Set(snapshot.metadata.partitionColumns);
  const mode = mappingMode(snapshot.metadata);
  if (tight)
    for (const field of snapshot.schema.fields) {
      if (partitions.has(field.name)) continue;
      const name = physicalName(field, mode);
      const nulls = sum(files.map((stats) => wholeOf(stats.nullCount[name])));
      if (nulls !== null) nullCounts.set(field.name, nulls);
      const range = nulls === null ? null : rangeOf(files, name, field.type);
      if (range !== null) ranges.set(field.name, range);
    }
  return { rowCount: rows, nullCounts, ranges };
}

function wholeOf(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : null;
}

function sum(values: readonly (bigint | null)[]): bigint | null {
  let total = 0n;
  for (const value of values) {
    if (value === null) return null;
    total += value;
  }
  return total;
}

/** Engines write times cut to milliseconds: good to 1 ms. A file without bounds must hold nothing but NULLs. */
function rangeOf(files: readonly FileStats[], name: string, type: unknown): TimeRange | null {
  if (type !== 'date' && type !== 'timestamp' && type !== 'timestamp_ntz') return null;
  let range: TimeRange | null = null;
  for (const stats of files) {
    const [min, max] = [stats.minValues[name], stats.maxValues[name]];
    if (typeof min !== 'string' || typeof max !== 'string') {
      if (wholeOf(stats.nullCount[name]) === stats.rowCount) continue;
      return null;
    }
    const [low, high] = [instant(min, type), instant(max, type)];
    range = {
      minMicros: range === null || low < range.minMicros ? low : range.minMicros,
      maxMicros: range === null || high > range.maxMicros ? high : range.maxMicros,
    };
  }
  return range;
}

const instant = (text: string, type: 'date' | 'timestamp' | 'timestamp_ntz'): bigint =>
  type === 'date' ? BigInt(dateOf(text)) * MICROS_PER_DAY : microsOf(text);
