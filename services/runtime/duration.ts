/** Durations (`500ms`, `10s`, `5m`, `2h`, `7d`) and sizes (`64MB`, `10GB`, plain bytes) as people write them. */
export const DEFAULT_TRIGGER_LOCAL = '1s';

const DURATION_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZE_UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1_000,
  mb: 1_000_000,
  gb: 1_000_000_000,
  kib: 1_024,
  mib: 1_048_576,
  gib: 1_073_741_824,
};

/** Milliseconds, or null when the text is no duration. */
export function parseDuration(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim());
  const unit = DURATION_UNITS[match?.[2] ?? ''];
  if (match === null || unit === undefined) return null;
  return Math.round(Number(match[1]) * unit);
}

/** Bytes, or null when the text is no size. */
export function parseSize(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([kmg]i?b|b)?$/i.exec(text.trim());
  const unit = SIZE_UNITS[(match?.[2] ?? 'b').toLowerCase()];
  if (match === null || unit === undefined) return null;
  return Math.round(Number(match[1]) * unit);
}

export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

export function formatSize(bytes: number): string {
  const steps: readonly [number, string][] = [
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
  ];
  for (const [unit, name] of steps) if (bytes >= unit) return `${(bytes / unit).toFixed(1)} ${name}`;
  return `${bytes} B`;
}
