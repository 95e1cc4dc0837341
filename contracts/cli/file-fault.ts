/** A file that is there and cannot be read or written: rights, a dead link, a folder where a file should be. */

/** What the system says of it, with the path; null: the error is another. */
export function fileFault(error: unknown): string | null {
  if (!(error instanceof Error) || !('syscall' in error) || !('path' in error)) return null;
  const { code, path } = error as NodeJS.ErrnoException;
  const reason = REASONS[code ?? ''] ?? code ?? 'unknown reason';
  return `${path ?? 'a file'}: ${reason}`;
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  EISDIR: 'a folder, not a file',
  EEXIST: 'a file stands there, no folder',
  ENOENT: 'not there, or a link to what is not there',
  ENOTDIR: 'a part of the path is a file',
  ELOOP: 'its links go round in a circle',
  ENOSPC: 'no space left',
  EROFS: 'the file system is read-only',
  EDQUOT: 'no space left in the quota',
  EIO: 'the device failed',
};

/** The path may be right, and the disk is not: what was asked is no bad usage. */
export function isDiskFault(error: unknown): boolean {
  return error instanceof Error && 'code' in error && DISK_FAULTS.has(String(error.code));
}
const DISK_FAULTS: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EIO', 'EROFS']);
