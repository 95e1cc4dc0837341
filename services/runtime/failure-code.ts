/** The code that a failure is known by; a full disk under it is told as such, whoever met it. */
const FULL_DISK: readonly string[] = ['ENOSPC', 'EDQUOT'];

export function failureCode(error: unknown): string {
  const codes: string[] = [];
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const code: unknown = 'code' in cause ? cause.code : null;
    if (typeof code === 'string') codes.push(code);
  }
  const named = codes.find((code) => code.endsWith('_DISK_FULL'));
  if (named !== undefined) return named;
  if (codes.some((code) => FULL_DISK.includes(code))) return 'ENOSPC';
  return codes[0] ?? (error instanceof Error ? error.name : 'UNKNOWN');
}
