/** Rows of text as columns of equal width. */
export function printColumns(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, at) => Math.max(title.length, ...rows.map((row) => (row[at] ?? '').length)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at] ?? 0)))
      .join('  ')
      .trimEnd();
  return [header, ...rows].map((row) => `${line(row)}\n`).join('');
}

/** `1.5 MB`; decimal units. */
export function formatBytes(bytes: bigint | number): string {
  const size = Number(bytes);
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let at = 0;
  let scaled = size;
  while (scaled >= 1000 && at < units.length - 1) {
    scaled /= 1000;
    at++;
  }
  return `${at === 0 ? String(scaled) : scaled.toFixed(1)} ${units[at] ?? ''}`;
}

/** ISO text of a time, in UTC; what no calendar holds is shown as the number. */
export function formatTime(ms: number): string {
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms);
}
