/**
 * Paths of the log's file actions (PROTOCOL.md, "Add File and Remove File"; RFC 2396): URIs relative to the table root, or
 * absolute. The object's key is the decoded form. Decoded once, never encoded again by joining strings.
 */

/** `name:` at the start, as in `s3://…` and `file:/…`. One letter alone would be a drive, which no Delta path has. */
const SCHEME = /^[a-zA-Z][a-zA-Z0-9+.-]+:/;

export function isAbsolutePath(path: string): boolean {
  return path.startsWith('/') || SCHEME.test(path);
}

/** Percent-decoding that leaves a malformed sequence as it stands: some writers do not encode a bare `%`. */
export function decodePath(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path.replace(/(?:%[0-9a-fA-F]{2})+/g, (run) => {
      try {
        return decodeURIComponent(run);
      } catch {
        return run;
      }
    });
  }
}

/**
 * One name for a file however it was written: two paths that name one object are equal. Relative paths are decoded;
 * `/x`, `file:/x` and `file:///x` are one; `s3a:` and `s3n:` are read as `s3:`.
 */
export function canonicalPath(path: string): string {
  if (!isAbsolutePath(path)) return decodePath(path);
  const decoded = decodePath(path);
  if (decoded.startsWith('file:')) return decoded.slice('file:'.length).replace(/^\/+/, '/');
  return decoded.replace(/^s3[an]:/, 's3:');
}

/**
 * Key of a file below the table root, or null when an absolute path lies elsewhere (a shallow clone).
 * @param tableUri canonical root, e.g. `s3://bucket/lake/public/orders`
 */
export function keyOfPath(path: string, tableUri: string): string | null {
  if (!isAbsolutePath(path)) return decodePath(path);
  const root = `${canonicalPath(tableUri).replace(/\/+$/, '')}/`;
  const full = canonicalPath(path);
  return full.startsWith(root) ? full.slice(root.length) : null;
}

/** The form a key takes in the log. Our own names need no encoding; this is for files that others named. */
export function encodePath(key: string): string {
  return key
    .split('/')
    .map((part) => encodeURIComponent(part))
    .join('/');
}
