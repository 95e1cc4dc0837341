/** Contract versions as semantic versions (major.minor.patch; pre-release and build parts are ignored). */
export type Bump = 'none' | 'patch' | 'minor' | 'major';

export interface Version {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** Null when the text does not begin with numbers. `1` and `1.2` are read as `1.0.0` and `1.2.0`. */
export function parseVersion(text: string): Version | null {
  const match = /^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:[-+].*)?$/.exec(text.trim());
  if (match === null) return null;
  return { major: Number(match[1]), minor: Number(match[2] ?? 0), patch: Number(match[3] ?? 0) };
}

/** How far the number rose. A number that fell or cannot be read is no bump. */
export function bumpBetween(before: string, after: string): Bump {
  const [a, b] = [parseVersion(before), parseVersion(after)];
  if (a === null || b === null) return before === after ? 'none' : 'major';
  if (b.major !== a.major) return b.major > a.major ? 'major' : 'none';
  if (b.minor !== a.minor) return b.minor > a.minor ? 'minor' : 'none';
  return b.patch > a.patch ? 'patch' : 'none';
}

/** The number went back: readers hold the later one already. */
export function versionFell(before: string, after: string): boolean {
  const [a, b] = [parseVersion(before), parseVersion(after)];
  if (a === null || b === null) return false;
  return (
    b.major < a.major || (b.major === a.major && (b.minor < a.minor || (b.minor === a.minor && b.patch < a.patch)))
  );
}

/** The smallest version that satisfies a bump. */
export function requiredVersion(before: string, bump: Bump): string | null {
  const version = parseVersion(before);
  if (version === null) return null;
  if (bump === 'major') return `${version.major + 1}.0.0`;
  if (bump === 'minor') return `${version.major}.${version.minor + 1}.0`;
  return `${version.major}.${version.minor}.${version.patch + 1}`;
}
